"""Decoding with shapes that never change, on a CPU, which captures nothing: the same tokens, from the same tensors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hostile_bundle import change_graph, copy_bundle
from steps import LOGITS, assert_steps_close
from tiny_checkpoint import SENTENCES, TINY, write_checkpoint

from seq2edge import captures, names
from seq2edge.bundle import Bundle, load_bundle
from seq2edge.decoding import decode
from seq2edge.devices import Place
from seq2edge.errors import BundleError, UsageError
from seq2edge.fixed_step import FixedStep
from seq2edge.onnx_engine import OnnxEngine
from seq2edge.sessions import HERE
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.export import export_bundle
from seq2edge_export.torch_engine import TorchEngine
from seq2edge_graphs.quantize.bundle import quantize_bundle
from seq2edge_graphs.quantize.wish import Wish

TEXTS = [*SENTENCES[:100:25], "x"]


def opened(bundle: Bundle) -> OnnxEngine:
    engine = OnnxEngine(bundle, threads=1)
    engine._open_fixed(bundle, HERE)  # no option of the CPU asks for it
    return engine


@pytest.fixture(scope="module")
def bundle(made, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    target = tmp_path_factory.mktemp("fixed") / "bundle"
    return export_bundle(made.checkpoint, target, dialect="portable", fixed_shapes=True, compare=False)


@pytest.fixture
def engine(bundle: Bundle) -> OnnxEngine:
    return opened(bundle)


@pytest.fixture(scope="module")
def original(made):
    return load_checkpoint(made.checkpoint).original()


@pytest.fixture(scope="module")
def sources(original) -> list[list[int]]:
    encoded: list[list[int]] = original.tokenizer().encode(TEXTS)
    return encoded


@pytest.fixture(scope="module")
def theirs(original) -> TorchEngine:
    return TorchEngine(original.graphs, pad=original.tokens.pad)


@pytest.mark.parametrize("prefix", [1, 7])
@pytest.mark.parametrize("beams", [1, 3])
def test_every_step_gives_the_originals_logits(engine, theirs, sources, prefix: int, beams: int) -> None:
    for _ in range(2):  # the second time with the tensors of the first
        ours = engine.start(sources)
        assert isinstance(ours, FixedStep)
        assert_steps_close(ours, theirs.start(sources), len(sources), prefix=prefix, beams=beams)
        del ours
    [desk] = engine.captures._desks
    assert set(desk.rooms) == {(1, 32), (beams, 32)}


def test_a_full_cache_moves_to_a_larger_room(engine, theirs, sources) -> None:
    ours, other = engine.start(sources[:2]), theirs.start(sources[:2])
    tokens, rows = np.full((2, 1, 30), 9), np.arange(2)[:, None]
    for _ in range(6):
        np.testing.assert_allclose(ours(tokens, rows), other(tokens, rows), atol=LOGITS)
        tokens = tokens[:, :, :1] + 1
    assert list(ours.desk.rooms) == [(1, 32), (1, 64)]


@pytest.mark.parametrize("num_beams", [1, 4])
def test_translations_are_the_originals_token_for_token(engine, theirs, sources, original, num_beams: int) -> None:
    options = replace(original.generation, num_beams=num_beams, max_new_tokens=40)
    ours, other = (decode(one, sources, options) for one in (engine, theirs))
    assert [found[0].tokens for found in ours] == [found[0].tokens for found in other]
    assert [one[0].score for one in ours] == pytest.approx([one[0].score for one in other], abs=LOGITS)


def test_what_the_encoder_hands_over_is_as_long_as_the_longest_source(engine, theirs, sources) -> None:
    ours, other = engine.start(sources[:1]).cross_states, theirs.start(sources[:1]).cross_states
    for name, states in other.items():
        np.testing.assert_allclose(ours[name], states, atol=LOGITS)


def test_steps_at_the_same_time_have_tensors_of_their_own(engine, sources) -> None:
    first, second = engine.start(sources[:2]), engine.start(sources[:2])
    assert first.desk is not second.desk
    left = first.desk
    del first
    assert engine.start(sources[:2]).desk is left


def test_captures_are_bounded(engine, sources, theirs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "MOST_CAPTURES", 0)
    ours = engine.start(sources)
    assert_steps_close(ours, theirs.start(sources), len(sources), prefix=1, beams=2)
    assert {number for room in ours.desk.rooms.values() for number in room.numbers} == {captures.NO_CAPTURE}


@pytest.mark.parametrize("precision", ["fp16", "fp16-compute"])
def test_halves_have_it_too(bundle: Bundle, tmp_path: Path, sources, precision) -> None:
    small = quantize_bundle(bundle.folder, tmp_path / "small", Wish(precision=precision), compare=False)
    ours, growing = opened(small).start(sources), OnnxEngine(small, threads=1).start(sources)
    tokens, rows = np.full((len(sources), 1, 1), 9), np.arange(len(sources))[:, None]
    for _ in range(4):
        np.testing.assert_allclose(ours(tokens, rows), growing(tokens, rows), atol=0.02)
        tokens = tokens + 1
    if precision == "fp16-compute":
        assert {value.data_type() for value in ours.room.caches[0].values()} == {"tensor(float16)"}


def test_what_no_device_that_captures_runs_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no device that captures graphs runs int8"):
        quantize_bundle(bundle.folder, tmp_path / "small", Wish(precision="int8"), compare=False)


def test_no_shape_is_computed_and_the_weights_are_there_once(bundle: Bundle, made) -> None:
    model = onnx.load(bundle.folder / names.FIXED_DECODER, load_external_data=False)
    assert {node.op_type for node in model.graph.node}.isdisjoint({"Concat", "Range", "Slice", "Expand", "GatherND"})
    assert not [node for node in model.graph.node if set(node.output) & {"logits"} and node.op_type != "Gemm"]
    plain = load_bundle(made.bundles["portable"]).manifest.files[names.WEIGHTS]
    assert bundle.manifest.files[names.WEIGHTS].size < 1.01 * plain.size


def test_a_decoder_without_room_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    copy = copy_bundle(tmp_path / "copy", bundle.folder)

    def shrink(model: onnx.ModelProto) -> None:
        [past] = [value for value in model.graph.input if value.name == "past_keys.1"]
        past.type.tensor_type.shape.dim[2].dim_value = 3

    change_graph(copy, shrink, names.FIXED_DECODER)
    with pytest.raises(BundleError, match=r"fixed_decoder\.onnx cannot be called: .*has no room"):
        load_bundle(copy)


def test_what_cannot_have_fixed_shapes_says_so(made, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--dialect portable"):
        export_bundle(made.checkpoint, tmp_path / "out", fixed_shapes=True)
    folder = write_checkpoint(tmp_path / "checkpoint", replace(TINY, decoder_cell="ssru"))
    with pytest.raises(UsageError, match="by its place in the cache alone"):
        export_bundle(folder, tmp_path / "out", dialect="portable", fixed_shapes=True)


def test_a_bundle_without_such_a_decoder_names_the_export_that_has_one(made) -> None:
    place = Place(device="cuda", options={"enable_cuda_graph": "1"})
    with pytest.raises(UsageError, match=r"enable_cuda_graph needs shapes that never change.* --fixed-shapes"):
        OnnxEngine(load_bundle(made.bundles["portable"]), threads=1, place=place)
