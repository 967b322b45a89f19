import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from seq2edge.errors import UsageError
from seq2edge_export.training import hardware
from seq2edge_export.training.config import TrainingSettings


def test_the_bf16_probe_survives_a_crash() -> None:
    assert hardware.bf16_speedup_on_cpu() >= 0


@pytest.mark.parametrize(("speedup", "chosen"), [(0.0, "fp32"), (0.5, "fp32"), (1.1, "fp32"), (2.0, "bf16")])
def test_bf16_is_chosen_where_it_is_faster(monkeypatch: pytest.MonkeyPatch, speedup: float, chosen: str) -> None:
    monkeypatch.setattr(hardware, "bf16_speedup_on_cpu", lambda: speedup)
    resolved = hardware.resolve_hardware(TrainingSettings(device="cpu"), {})
    assert (resolved.device, resolved.precision) == ("cpu", chosen)


def test_requesting_unsupported_bf16_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "bf16_speedup_on_cpu", lambda: 0.0)
    with pytest.raises(UsageError, match="bf16 was requested, but this CPU does not support it"):
        hardware.resolve_hardware(TrainingSettings(device="cpu", precision="bf16"), {})


def test_a_child_that_cannot_be_run_means_no_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert hardware.bf16_speedup_on_cpu() == 0.0


def test_requesting_unavailable_cuda_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="finds no usable device; use --device cpu"):
        hardware.resolve_hardware(TrainingSettings(device="cuda"), {})


def test_cuda_and_bf16_are_used_where_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    resolved = hardware.resolve_hardware(TrainingSettings(), {})
    assert (resolved.device, resolved.precision) == ("cuda", "bf16")


def test_a_resumed_run_keeps_its_precision_unless_another_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "bf16_speedup_on_cpu", lambda: 2.0)
    before = {"device": "cpu", "precision": "fp32"}
    assert hardware.resolve_hardware(TrainingSettings(), before).precision == "fp32"
    assert hardware.resolve_hardware(TrainingSettings(precision="bf16"), before).precision == "bf16"


@pytest.mark.parametrize(("threads", "text"), [(1, "1 thread"), (3, "3 threads")])
def test_device_precision_and_threads_are_described(threads: int, text: str) -> None:
    description = hardware.describe(TrainingSettings(device="cpu", precision="fp32", threads=threads))
    assert description == f"training on the CPU in fp32 with {text}"


def test_training_in_bf16_works_where_the_hardware_has_it(tmp_path: Path, arguments: Callable[..., list[str]]) -> None:
    command = [sys.executable, "-m", "seq2edge", *arguments(tmp_path / "out", precision="bf16", max_steps=2)]
    environment = {
        **os.environ,
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
    }  # AMX is broken on some VMs
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    if "this CPU does not support it" in done.stderr:
        pytest.skip("no bf16 on this CPU")
    assert done.returncode == 0, done.stderr
    assert "training on the CPU in bf16" in done.stderr
