"""The table of devices, the bundles and options that each refuses, and the choice of auto."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import onnxruntime
import pytest

from seq2edge import Translator
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.devices import topk_graphs
from seq2edge.devices.auto import fastest, resolve_device
from seq2edge.devices.probe import Probe
from seq2edge.devices.registry import CPU, DEVICES, DeviceConfig, parse_options, provider_options
from seq2edge.devices.session import compute_nodes, nodes_on_other_providers, open_session
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import BundleError, UsageError

MANIFEST = load_bundle(DEFAULT_BUNDLE).manifest
WEBGPU, CUDA, OPENVINO = DEVICES["webgpu"], DEVICES["cuda"], DEVICES["openvino"]


def test_a_device_that_is_not_installed_says_how_to_get_it() -> None:
    absent = [name for name, one in DEVICES.items() if one.provider not in onnxruntime.get_available_providers()]
    for name in {"cuda", "directml"} & set(absent):
        with pytest.raises(UsageError, match=f"{name!r} needs onnxruntime's .*, which is not installed: .*pip"):
            open_session(topk_graphs.TRIAL, threads=1, device_config=DeviceConfig(device=name))


def test_a_missing_device_is_reported_before_an_unsuitable_bundle() -> None:
    with pytest.raises(UsageError, match="not installed"):
        Translator(device="directml")


@pytest.mark.parametrize("device", [one for one in DEVICES.values() if one is not CPU], ids=lambda one: one.name)
def test_a_bundle_that_a_device_cannot_run_names_the_export_that_can(device) -> None:
    with pytest.raises(BundleError, match="seq2edge export CHECKPOINT BUNDLE --dialect portable --precision "):
        device.check(replace(MANIFEST, dialect="ort", precision="int4"))
    with pytest.raises(BundleError, match=f"is in int4, but {device.name} runs .* --precision"):
        device.check(replace(MANIFEST, dialect="portable", precision="int4"))
    device.check(replace(MANIFEST, dialect="portable", precision="fp32"))


def test_the_cpu_runs_every_bundle() -> None:
    for precision in ("fp32", "fp16", "fp16-compute", "int8", "int4", "mixed"):
        CPU.check(replace(MANIFEST, precision=precision))


def test_graphs_that_compute_in_fp16_are_for_gpus_and_the_cpu() -> None:
    half = replace(MANIFEST, dialect="portable", precision="fp16-compute")
    for name in ("cpu", "cuda", "tensorrt", "webgpu", "directml"):
        DEVICES[name].check(half)
    for name, instead in (("openvino", "int8"), ("coreml", "fp32")):
        with pytest.raises(BundleError, match=f"is in fp16-compute, but {name} runs .* --precision {instead}"):
            DEVICES[name].check(half)


def test_provider_options_keep_float32() -> None:
    assert provider_options(DeviceConfig(device="cuda"), 1)["use_tf32"] == "0"
    assert '"INFERENCE_PRECISION_HINT": "f32"' in provider_options(DeviceConfig(device="openvino"), 3)["load_config"]
    assert '"INFERENCE_NUM_THREADS": "3"' in provider_options(DeviceConfig(device="openvino"), 3)["load_config"]


def test_provider_options_of_the_user_take_precedence() -> None:
    assert provider_options(DeviceConfig(device="openvino", options={"device_type": "GPU"}), 1)["device_type"] == "GPU"


@pytest.mark.parametrize("device", ["cuda", "tensorrt", "webgpu", "directml"])
def test_options_for_fixed_shapes_are_refused(device: str) -> None:
    [name] = DEVICES[device].fixed_shapes
    with pytest.raises(UsageError, match=f"{name} needs shapes that never change"):
        provider_options(DeviceConfig(device=device, options={name: "1"}), 1)
    provider_options(DeviceConfig(device=device, options={name: "0"}), 1)


def test_provider_options_are_read_from_the_command_line() -> None:
    assert parse_options(("a=1", "b=x=y", "c=")) == {"a": "1", "b": "x=y", "c": ""}
    for wrong in ("a", "=1", ""):
        with pytest.raises(UsageError, match="--provider-option NAME=VALUE"):
            parse_options((wrong,))


def test_the_fastest_device_is_chosen_if_it_is_faster_by_a_margin() -> None:
    def probes(**times: float | None) -> dict:
        found = {DEVICES[name]: Probe(works=time is not None, milliseconds=time) for name, time in times.items()}
        return {CPU: Probe(works=True, milliseconds=10.0), **found}

    assert fastest(probes(cuda=1.0, webgpu=2.0)) is CUDA
    assert fastest(probes(cuda=None, webgpu=2.0)) is WEBGPU
    assert fastest(probes(webgpu=6.0)) is CPU  # not by a margin
    assert fastest(probes(webgpu=2904.0)) is CPU  # a driver that computes on the CPU
    assert fastest({}) is CPU


def test_auto_only_tries_devices_that_can_run_the_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2edge.devices.auto.is_installed", lambda device: device in (CPU, WEBGPU, OPENVINO))
    tried: list[str] = []

    def ask(device) -> Probe:
        tried.append(device.name)
        return Probe(works=True, milliseconds=10.0 if device is CPU else 1.0)

    assert (
        resolve_device(DeviceConfig(device="auto"), MANIFEST, try_device=ask).device == "cpu"
    )  # the default bundle is for the CPU alone
    assert tried == []
    portable = replace(MANIFEST, dialect="portable", precision="fp32")
    assert resolve_device(DeviceConfig(device="auto", strict=True), portable, try_device=ask) == DeviceConfig(
        device="webgpu", strict=True
    )
    assert tried == ["cpu", "webgpu"]
    assert resolve_device(DeviceConfig(device="openvino"), portable, try_device=ask).device == "openvino"


def test_auto_refuses_provider_options() -> None:
    with pytest.raises(UsageError, match="name it with --device"):
        resolve_device(DeviceConfig(device="auto", options={"a": "1"}), MANIFEST)


def test_auto_translates_and_reports_the_device() -> None:
    with Translator(device="auto", strict_device=True) as translator:
        assert translator.device_config.device in DEVICES
        assert translator.translate(["Good morning."])[0].text


def test_shape_operators_are_not_compute_nodes() -> None:
    assert compute_nodes(Counter(Shape=3, Concat=2, LessOrEqual=1)) == Counter()
    assert compute_nodes(Counter(Shape=3, MatMul=2)) == Counter(MatMul=2)


class Split:
    """A session in which another provider runs some nodes."""

    def __init__(self, **operators: int) -> None:
        self.operators = operators

    def get_provider_graph_assignment_info(self) -> list:
        def part(name: str, operators: dict[str, int]):
            class Node:
                def __init__(self, op_type: str) -> None:
                    self.op_type = op_type

            class Part:
                ep_name = name

                def get_nodes(self) -> list:
                    return [Node(kind) for kind, count in operators.items() for _ in range(count)]

            return Part()

        return [part(WEBGPU.provider, {"MatMul": 9}), part(CPU.provider, self.operators)]


def test_nodes_on_another_provider_are_noted_and_strictness_makes_them_an_error() -> None:
    from seq2edge.devices.session import _check_strict

    device_config = DeviceConfig(device="webgpu")
    assert nodes_on_other_providers(Split(MatMul=2, Shape=1), device_config) == {
        CPU.provider: Counter(MatMul=2, Shape=1)
    }
    _check_strict(Split(Shape=4), Path("decoder.onnx"), device_config)
    with pytest.raises(UsageError, match=r"would run nodes of decoder\.onnx: MatMul 2"):
        _check_strict(Split(MatMul=2, Shape=1), Path("decoder.onnx"), device_config)
    engine = OnnxEngine.__new__(OnnxEngine)
    engine.encoder, engine.decoder, engine.device_config = Split(Shape=1), Split(MatMul=2), device_config
    assert engine.notes == ["3 nodes run on CPUExecutionProvider instead of webgpu, among them MatMul 2"]
    engine.decoder = Split(Concat=2)
    assert engine.notes == ["3 shape and index nodes run on CPUExecutionProvider, all others on webgpu"]


def test_a_strict_device_needs_an_onnxruntime_that_reports_where_nodes_run() -> None:
    from seq2edge.devices.session import _check_strict

    with pytest.raises(UsageError, match="does not report where nodes run"):
        _check_strict(object(), Path("decoder.onnx"), DeviceConfig(device="webgpu"))
