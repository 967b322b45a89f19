"""onnxruntime-gpu without a GPU: the provider is listed but cannot be loaded, and nothing falls back to the CPU."""

import json

import pytest


@pytest.mark.parametrize("device", ["cuda", "tensorrt"])
def test_the_error_names_the_missing_libraries(bundles, command, device: str) -> None:
    done = command("translate", "-m", bundles.fp32, "--device", device, "Good morning.")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: the device {device!r} cannot ")
    assert "libcuda.so.1" in done.stderr
    assert "libcublas.so" in done.stderr
    assert "cannot be loaded" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unusable_device_is_reported_before_an_unsuitable_bundle(command) -> None:
    done = command("translate", "--device", "cuda", "Good morning.")
    assert "libcuda.so.1" in done.stderr


def test_bench_and_score_do_not_fall_back_either(bundles, command, tmp_path) -> None:
    (tmp_path / "pairs.tsv").write_text("No!\tNein!\n", encoding="utf-8")
    for arguments in (("bench", "--no-memory"), ("score", "-i", tmp_path / "pairs.tsv")):
        done = command(*arguments, "-m", bundles.fp32, "--device", "cuda")
        assert (done.returncode, done.stdout) == (2, "")
        assert "libcuda.so.1" in done.stderr


def test_auto_chooses_the_cpu_and_reports_it(bundles, command) -> None:
    done = command("translate", "-m", bundles.fp32, "--device", "auto", "Good morning.")
    assert done.returncode == 0
    assert done.stderr == "Note: cpu is the fastest device that works here\n"
    assert done.stdout.startswith("Bom dia")


def test_graph_capture_is_refused_because_shapes_change(bundles, command) -> None:
    done = command(
        "translate", "-m", bundles.fp32, "--device", "cuda", "--provider-option", "enable_cuda_graph=1", "No!"
    )
    assert done.returncode == 2
    assert "enable_cuda_graph needs shapes that never change" in done.stderr


def test_the_doctor_lists_installed_and_missing_libraries(command) -> None:
    found = json.loads(command("doctor", "--json").stdout)
    cuda = next(one for one in found["devices"] if one["name"] == "cuda")
    assert (cuda["offered"], cuda["works"]) == ("built in", False)
    assert "libcuda.so.1" in cuda["problem"]
    assert found["libraries"]["libcuda.so.1"] is False
    assert "libcudnn.so.9" in found["libraries"]
    assert found["advice"]["device"] == "cpu"
