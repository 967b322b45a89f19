"""WebGPU, through its plugin: the same tokens as the CPU, and no large tensor leaves the device.

Without a GPU, SwiftShader's Vulkan driver computes on the CPU: slowly, but with separate device memory.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tolerances import log_probability_rounding, network_rounding, score_rounding

from seq2edge import Translator
from seq2edge.bundle.bundle import load_bundle
from seq2edge.devices import session as session_module
from seq2edge.devices.registry import DeviceConfig
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import UsageError
from seq2edge.search.batch_decode import decode

WEBGPU = DeviceConfig(device="webgpu")
SOURCES = [[5, 6, 7, 40, 41], [8, 9, 10, 11], [60, 61, 62], [12]]
SHORT = ("Good morning.", "No!", "Where is Tom?", "I am tired.")
BEAMS, COUNT = 4, 8


@pytest.fixture(scope="module")
def engine(bundles) -> OnnxEngine:
    return OnnxEngine(load_bundle(bundles.tiny), threads=1, device_config=WEBGPU)


class HostTransfers:
    """Tensors that were bound to host memory: inputs with their bytes, and outputs."""

    def __init__(self) -> None:
        self.inputs: dict[str, int] = {}
        self.outputs: set[str] = set()

    def clear(self) -> None:
        self.inputs, self.outputs = {}, set()


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> HostTransfers:
    """Record what is bound to host memory."""
    seen, binding = HostTransfers(), onnxruntime.IOBinding
    bind_input, bind_output = binding.bind_cpu_input, binding.bind_output

    def watched_input(self, name: str, array: np.ndarray) -> None:
        seen.inputs[name] = array.nbytes
        bind_input(self, name, array)

    def watched_output(self, name: str, device_type: str = "cpu", *rest: object) -> None:
        if device_type == "cpu":
            seen.outputs.add(name)
        bind_output(self, name, device_type, *rest)

    monkeypatch.setattr(binding, "bind_cpu_input", watched_input)
    monkeypatch.setattr(binding, "bind_output", watched_output)
    return seen


def beam_step(state, sentences: int, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(sentences * BEAMS).reshape(sentences, BEAMS) if rows is None else rows
    return state.top_k(np.full((sentences, BEAMS, 1), 9), rows, COUNT)


def test_states_and_cache_stay_on_the_device(engine: OnnxEngine) -> None:
    state = engine.start(SOURCES)
    state.top_k(np.full((4, 1, 1), 2), np.arange(4)[:, None], COUNT)
    beam_step(state, 4, np.repeat(np.arange(4)[:, None], BEAMS, axis=1))
    beam_step(state, 2, np.array([[4, 5, 5, 6], [12, 12, 12, 12]]))  # two sentences have ended
    found = {name: value.device_name() for name, value in (state.source | state.past).items()}
    assert len(found) == 1 + 4 + 4  # the mask, and keys and values of two layers, twice
    assert set(found.values()) == {"webgpu"}
    assert {value.shape()[0] for value in state.source.values()} == {2}
    assert {tuple(value.shape()) for value in state.past.values()} == {(2 * BEAMS, 4, 3, 8)}


def test_a_step_transfers_tokens_and_rows_and_returns_the_best_tokens(
    engine: OnnxEngine, transfers: HostTransfers
) -> None:
    state = engine.start(SOURCES)
    state.top_k(np.full((4, 1, 1), 2), np.arange(4)[:, None], COUNT)
    beam_step(state, 4, np.repeat(np.arange(4)[:, None], BEAMS, axis=1))
    for _ in range(3):
        transfers.clear()
        tokens, scores = beam_step(state, 4)
        assert transfers.inputs == {"target": 4 * BEAMS * 8, "rows": 4 * BEAMS * 8, "count": 8}
        assert transfers.outputs == {"tokens", "log_probabilities"}
        assert tokens.nbytes + scores.nbytes == 4 * BEAMS * COUNT * (8 + 4)
    transfers.clear()
    state.step(np.full((4, BEAMS, 1), 9), np.arange(16).reshape(4, BEAMS))
    assert transfers.outputs == {"logits"}  # a search that needs all logits


@pytest.fixture
def profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn on profiling for all sessions."""
    plain = session_module._options

    def options_of(threads: int) -> onnxruntime.SessionOptions:
        options = plain(threads)
        options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
        return options

    monkeypatch.setattr(session_module, "_options", options_of)


@pytest.mark.usefixtures("profiled")
def test_onnxruntime_copies_only_tokens_indices_and_shapes(bundles) -> None:
    engine = OnnxEngine(load_bundle(bundles.tiny), threads=1, device_config=WEBGPU)
    state = engine.start(SOURCES)
    state.top_k(np.full((4, 1, 1), 2), np.arange(4)[:, None], COUNT)
    beam_step(state, 4, np.repeat(np.arange(4)[:, None], BEAMS, axis=1))
    for _ in range(6):
        beam_step(state, 4)
    for session in (engine.decoder, engine.device_topk.best):
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        copies = [one["args"] for one in events if one.get("cat") == "Node" and "Memcpy" in one["name"]]
        dtypes = {dtype for one in copies for output in one["output_type_shape"] for dtype in output}
        assert not [one for one in copies if one["op_name"] == "MemcpyToHost"]
        assert dtypes <= {"int64", "bool"}  # no states
        # Tokens and rows have 8 bytes per row each, positions 8 bytes, and the mask 1 byte per token.
        assert max((int(one["output_size"]) for one in copies), default=0) <= 4 * BEAMS * 8


@pytest.mark.parametrize("num_beams", [1, BEAMS])
def test_tokens_and_scores_are_those_of_the_cpu(bundles, engine: OnnxEngine, num_beams: int) -> None:
    bundle = load_bundle(bundles.tiny)
    options = replace(bundle.manifest.generation, num_beams=num_beams, max_new_tokens=6)
    ours, theirs = (decode(one, SOURCES, options) for one in (engine, OnnxEngine(bundle, threads=1)))
    for (one, *_), (other, *_) in zip(ours, theirs, strict=True):
        assert one.tokens == other.tokens
        each = log_probability_rounding(network_rounding(bundle.manifest.architecture, size=10))
        assert one.score == pytest.approx(other.score, abs=score_rounding(6, each))


def test_graph_capture_is_refused_because_shapes_change(bundles, command) -> None:
    option = ("--provider-option", "enableGraphCapture=1")
    done = command("translate", "-m", bundles.tiny, "--device", "webgpu", *option, "no")
    assert done.returncode == 2
    assert "enableGraphCapture needs shapes that never change" in done.stderr


def test_the_default_model_returns_the_tokens_of_pytorch(bundles, command, lines) -> None:
    arguments = ("--against", "models/en-pt", "--input", lines(*SHORT), "--device", "webgpu", "--strict-device")
    done = command("verify", bundles.fp32, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    parity = json.loads(done.stdout)["parity"]
    assert (parity["device"], parity["sentences"]) == ("webgpu", len(SHORT))
    assert parity["greedy_equal"] == parity["beam_equal"] == parity["top1_agreement"] == 1
    shape = load_bundle(bundles.fp32).manifest.architecture
    assert parity["logit_difference"] < network_rounding(shape, size=20)


@pytest.mark.parametrize("precision", ["fp16", "half"])
def test_half_precision_works_or_the_error_names_what_the_device_lacks(bundles, command, precision: str) -> None:
    done = command("translate", "-m", getattr(bundles, precision), "--device", "webgpu", "--num-beams", 1, "No!")
    if done.returncode:
        assert "f16" in done.stderr
        assert done.stderr.count("Error:") == 1
    else:
        assert done.stdout.startswith("Nein")


def test_nodes_on_the_cpu_are_noted(bundles, command) -> None:
    with Translator(bundles.tiny, device="webgpu", strict_device=True) as translator:
        [note] = translator.notes
    assert note.endswith("shape and index nodes run on CPUExecutionProvider, all others on webgpu")


def test_a_strict_device_refuses_an_int8_bundle_that_would_run_on_the_cpu(bundles) -> None:
    with pytest.raises(UsageError, match=r"CPUExecutionProvider instead of webgpu would run nodes of .*MatMulInteger"):
        session_module.open_session(
            bundles.int8 / "decoder.onnx", threads=1, device_config=replace(WEBGPU, strict=True)
        )


def test_the_default_bundle_names_the_export_that_would_run(command) -> None:
    done = command("translate", "--device", "webgpu", "No!")
    assert done.returncode == 2
    assert "--dialect portable --precision fp16" in done.stderr


def test_without_a_driver_there_is_an_error_and_no_translation(bundles, command) -> None:
    nothing = {"VK_ICD_FILENAMES": "/none", "VK_DRIVER_FILES": "/none", "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1"}
    done = command("translate", "-m", bundles.tiny, "--device", "webgpu", "No!", **nothing)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("Error: ") == 1
    assert "Vulkan" in done.stderr


def test_the_doctor_tries_both_plugins(command) -> None:
    found = {one["name"]: one for one in json.loads(command("doctor", "--json").stdout)["devices"]}
    assert (found["webgpu"]["offered"], found["webgpu"]["works"]) == ("plugin", True)
    openvino = found["openvino"]
    assert openvino["offered"] == "plugin"
    assert openvino["works"] or "Intel hardware" in openvino["problem"] or "ONEDNN" in openvino["workaround"]


def test_auto_reports_the_chosen_device(bundles, command) -> None:
    done = command("translate", "-m", bundles.tiny, "--device", "auto", "no")
    assert done.returncode == 0
    assert "is the fastest device that works here" in done.stderr
