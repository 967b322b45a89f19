"""WebGPU, through its plugin: the same tokens as the CPU, and nothing large ever leaves the device.

Without a GPU, SwiftShader's driver for Vulkan computes on the CPU, slowly, but with a memory of its own all the same.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

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


class Crossing:
    """Bytes that were bound from and to numpy's memory, by name."""

    def __init__(self) -> None:
        self.there: dict[str, int] = {}
        self.back: set[str] = set()

    def clear(self) -> None:
        self.there, self.back = {}, set()


@pytest.fixture
def crossing(monkeypatch: pytest.MonkeyPatch) -> Crossing:
    """Watch what is bound to numpy's memory, wherever it is bound."""
    seen, binding = Crossing(), onnxruntime.IOBinding
    bind_input, bind_output = binding.bind_cpu_input, binding.bind_output

    def watched_input(self, name: str, array: np.ndarray) -> None:
        seen.there[name] = array.nbytes
        bind_input(self, name, array)

    def watched_output(self, name: str, device_type: str = "cpu", *rest: object) -> None:
        if device_type == "cpu":
            seen.back.add(name)
        bind_output(self, name, device_type, *rest)

    monkeypatch.setattr(binding, "bind_cpu_input", watched_input)
    monkeypatch.setattr(binding, "bind_output", watched_output)
    return seen


def beam_step(step, sentences: int, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(sentences * BEAMS).reshape(sentences, BEAMS) if rows is None else rows
    return step.best(np.full((sentences, BEAMS, 1), 9), rows, COUNT)


def test_states_and_cache_live_on_the_device_from_the_first_step_to_the_last(engine: OnnxEngine) -> None:
    step = engine.start(SOURCES)
    step.best(np.full((4, 1, 1), 2), np.arange(4)[:, None], COUNT)
    beam_step(step, 4, np.repeat(np.arange(4)[:, None], BEAMS, axis=1))
    beam_step(step, 2, np.array([[4, 5, 5, 6], [12, 12, 12, 12]]))  # two sentences have left
    found = {name: value.device_name() for name, value in (step.source | step.past).items()}
    assert len(found) == 1 + 4 + 4  # the mask, and keys and values of two layers, twice
    assert set(found.values()) == {"webgpu"}
    assert {value.shape()[0] for value in step.source.values()} == {2}
    assert {tuple(value.shape()) for value in step.past.values()} == {(2 * BEAMS, 4, 3, 8)}


def test_a_step_brings_tokens_and_rows_there_and_the_chosen_ones_back(engine: OnnxEngine, crossing: Crossing) -> None:
    step = engine.start(SOURCES)
    step.best(np.full((4, 1, 1), 2), np.arange(4)[:, None], COUNT)
    beam_step(step, 4, np.repeat(np.arange(4)[:, None], BEAMS, axis=1))
    for _ in range(3):
        crossing.clear()
        tokens, scores = beam_step(step, 4)
        assert crossing.there == {"target": 4 * BEAMS * 8, "rows": 4 * BEAMS * 8, "count": 8}
        assert crossing.back == {"tokens", "log_probabilities"}
        assert tokens.nbytes + scores.nbytes == 4 * BEAMS * COUNT * (8 + 4)
    crossing.clear()
    step(np.full((4, BEAMS, 1), 9), np.arange(16).reshape(4, BEAMS))
    assert crossing.back == {"logits"}  # a search that has to see all scores


@pytest.fixture
def profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sessions write down what they run."""
    plain = session_module._options

    def options_of(threads: int) -> onnxruntime.SessionOptions:
        options = plain(threads)
        options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
        return options

    monkeypatch.setattr(session_module, "_options", options_of)


@pytest.mark.usefixtures("profiled")
def test_what_onnxruntime_copies_by_itself_are_tokens_places_and_sizes(bundles) -> None:
    engine = OnnxEngine(load_bundle(bundles.tiny), threads=1, device_config=WEBGPU)
    step = engine.start(SOURCES)
    step.best(np.full((4, 1, 1), 2), np.arange(4)[:, None], COUNT)
    beam_step(step, 4, np.repeat(np.arange(4)[:, None], BEAMS, axis=1))
    for _ in range(6):
        beam_step(step, 4)
    for session in (engine.decoder, engine.chooser.best):
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        copies = [one["args"] for one in events if one.get("cat") == "Node" and "Memcpy" in one["name"]]
        kinds = {kind for one in copies for output in one["output_type_shape"] for kind in output}
        assert not [one for one in copies if one["op_name"] == "MemcpyToHost"]
        assert kinds <= {"int64", "bool"}  # no number of the model
        # Tokens and rows are 8 bytes a row each; the device_config, and a byte for each token that may be looked at.
        assert max((int(one["output_size"]) for one in copies), default=0) <= 4 * BEAMS * 8


@pytest.mark.parametrize("num_beams", [1, BEAMS])
def test_tokens_and_scores_are_those_of_the_cpu(bundles, engine: OnnxEngine, num_beams: int) -> None:
    bundle = load_bundle(bundles.tiny)
    options = replace(bundle.manifest.generation, num_beams=num_beams, max_new_tokens=6)
    ours, theirs = (decode(one, SOURCES, options) for one in (engine, OnnxEngine(bundle, threads=1)))
    for (one, *_), (other, *_) in zip(ours, theirs, strict=True):
        assert one.tokens == other.tokens
        assert one.score == pytest.approx(other.score, abs=1e-4)


def test_a_captured_graph_is_refused_as_shapes_change(bundles, command) -> None:
    option = ("--provider-option", "enableGraphCapture=1")
    done = command("translate", "-m", bundles.tiny, "--device", "webgpu", *option, "no")
    assert done.returncode == 2
    assert "enableGraphCapture needs shapes that never change" in done.stderr


def test_the_embedded_model_says_every_token_that_pytorch_says(bundles, command, lines) -> None:
    arguments = ("--against", "models/en-de", "--input", lines(*SHORT), "--device", "webgpu", "--strict-device")
    done = command("verify", bundles.fp32, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    parity = json.loads(done.stdout)["parity"]
    assert (parity["device"], parity["sentences"]) == ("webgpu", len(SHORT))
    assert parity["greedy_equal"] == parity["beam_equal"] == parity["top1_agreement"] == 1
    assert parity["logit_difference"] < 1e-4


@pytest.mark.parametrize("kind", ["fp16", "half"])
def test_half_precision_works_or_says_what_the_device_lacks(bundles, command, kind: str) -> None:
    done = command("translate", "-m", getattr(bundles, kind), "--device", "webgpu", "--num-beams", 1, "No!")
    if done.returncode:
        assert "f16" in done.stderr
        assert done.stderr.count("Error:") == 1
    else:
        assert done.stdout.startswith("Nein")


def test_nodes_on_the_cpu_are_told(bundles, command) -> None:
    with Translator(bundles.tiny, device="webgpu", strict_device=True) as translator:
        [note] = translator.notes
    assert note.endswith("nodes that count sizes and device_configs run on CPUExecutionProvider, all others on webgpu")


def test_a_bundle_in_8_bits_would_run_elsewhere_which_strictness_refuses(bundles) -> None:
    with pytest.raises(UsageError, match=r"CPUExecutionProvider instead of webgpu would run nodes of .*MatMulInteger"):
        session_module.open_session(
            bundles.int8 / "decoder.onnx", threads=1, device_config=replace(WEBGPU, strict=True)
        )


def test_the_embedded_bundle_names_the_export_that_would_run(command) -> None:
    done = command("translate", "--device", "webgpu", "No!")
    assert done.returncode == 2
    assert "--dialect portable --precision fp16" in done.stderr


def test_without_a_driver_the_error_says_so_and_nothing_is_translated(bundles, command) -> None:
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


def test_auto_takes_the_device_only_if_it_is_faster(bundles, command) -> None:
    done = command("translate", "-m", bundles.tiny, "--device", "auto", "no")
    assert done.returncode == 0
    assert "is the fastest device that works here" in done.stderr
