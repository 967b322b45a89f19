"""Whole bundles that compute in float16: what PyTorch says in float32, with a cache of halves that nobody converts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hostile_bundle import change_graph, copy_bundle
from onnx import TensorProto
from tiny_checkpoint import SENTENCES, TINY, write_checkpoint

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle, load_bundle
from seq2edge.cli.report import bundle_facts
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import BundleError, UsageError
from seq2edge.search.batch_decode import decode
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.export import export_bundle
from seq2edge_export.torch_engine import TorchEngine
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.pipeline import quantize_bundle

WISH = QuantizationConfig(precision="fp16-compute")
TEXTS = [SENTENCES[place] for place in range(0, 200, 25)]
TOKENS = 16
CLOSE = 2e-2  # logits of about 4, whose neighbours in float16 are 0.004 apart, behind four layers that round too


@pytest.fixture(scope="module")
def half(made, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return quantize_bundle(made.bundles["portable"], tmp_path_factory.mktemp("half") / "bundle", WISH)


def test_the_cache_is_halves_from_call_to_call(half: Bundle) -> None:
    step = OnnxEngine(half, threads=1).start([[5, 6, 7], [8]])
    for rows in ([[0], [1]], [[0, 0], [1, 1]], [[1, 0], [2, 3]]):
        logits = step(np.full((2, len(rows[0]), 1), 9), np.array(rows))
        assert logits.dtype == np.float32
        assert {value.dtype for name, value in step.past.items()} == {np.dtype(np.float16)}
    assert {value.dtype for value in step.cross_states.values()} == {np.dtype(np.float16)}


def test_it_keeps_the_limits_of_halves_and_takes_half_the_cache(half: Bundle, made) -> None:
    assert half.manifest.precision == "fp16-compute"
    assert half.manifest.parity is not None  # it would not be there otherwise
    whole = load_bundle(made.bundles["portable"])
    caches = [bundle_facts(one, source_length=9, target_length=9)["cost"] for one in (half, whole)]
    assert 2 * caches[0]["cache_bytes_per_sentence"] == caches[1]["cache_bytes_per_sentence"]


@pytest.mark.parametrize("num_beams", [1, 4])
def test_it_says_what_pytorch_says_in_float32(half: Bundle, made, num_beams: int) -> None:
    original = load_checkpoint(made.checkpoint).original()
    sources = original.tokenizer().encode(TEXTS)
    options = replace(original.generation, num_beams=num_beams, max_new_tokens=TOKENS)
    ours = decode(OnnxEngine(half, threads=1), sources, options)
    theirs = decode(TorchEngine(original.graphs, pad=original.tokens.pad), sources, options)
    assert [one[0].tokens for one in ours] == [one[0].tokens for one in theirs]
    assert [one[0].score for one in ours] == pytest.approx([one[0].score for one in theirs], abs=TOKENS * CLOSE)


def test_a_sentence_does_not_depend_on_its_batch_and_is_scored_as_it_was_found(half: Bundle) -> None:
    with Translator(half.folder, threads=1) as translator:
        together = translator.translate(TEXTS, num_beams=1, max_new_tokens=16)
        for text, result in zip(TEXTS, together, strict=True):
            assert translator.translate([text], num_beams=1, max_new_tokens=16)[0].tokens == result.tokens
        [scored] = translator.score(TEXTS[:1], [TEXTS[0]])
        assert np.isfinite(scored.score)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        replace(TINY, norm="rms", bias=False, positions="relative", relative_buckets=8, relative_distance=6),
        replace(TINY, decoder_cell="ssru"),
    ],
    ids=["rms norms and distances", "a recurrent decoder"],
)
def test_other_models_compute_in_halves_too(tmp_path: Path, shape) -> None:
    folder = write_checkpoint(tmp_path / "checkpoint", shape, scaled=False)
    original = load_checkpoint(folder).original()
    made = export_bundle(folder, tmp_path / "bundle", wish=WISH, dialect="portable", compare=False)
    sources = original.tokenizer().encode(TEXTS[:3])
    ours = OnnxEngine(made, threads=1).start(sources)
    theirs = TorchEngine(original.graphs, pad=original.tokens.pad).start(sources)
    tokens, rows = np.full((3, 1, 2), 9), np.arange(3)[:, None]
    for _ in range(4):
        np.testing.assert_allclose(ours(tokens, rows), theirs(tokens, rows), atol=CLOSE)
        tokens = tokens[:, :, :1] + 1


def test_a_cache_that_changes_its_type_between_calls_is_refused(half: Bundle, tmp_path: Path) -> None:
    copy = copy_bundle(tmp_path / "copy", half.folder)

    def widen(model: onnx.ModelProto) -> None:
        [present] = [value for value in model.graph.output if value.name == "present_keys.1"]
        present.type.tensor_type.elem_type = TensorProto.FLOAT

    change_graph(copy, widen)
    with pytest.raises(BundleError, match=r"decoder\.onnx cannot be called: .*'past_keys\.1'.* leaves it as float32"):
        load_bundle(copy)


def test_an_encoder_of_another_type_is_refused(half: Bundle, made, tmp_path: Path) -> None:
    copy = copy_bundle(tmp_path / "copy", half.folder)

    def widen(model: onnx.ModelProto) -> None:
        for value in model.graph.output:
            value.type.tensor_type.elem_type = TensorProto.FLOAT

    change_graph(copy, widen, tensor_names.ENCODER)
    with pytest.raises(BundleError, match="which the encoder does not give"):
        load_bundle(copy)


def test_it_is_for_standard_operators_and_rounds_everything(made, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--dialect portable"):
        quantize_bundle(made.bundles["ort"], tmp_path / "out", WISH)
    with pytest.raises(UsageError, match="--keep-precision does not go with --precision fp16-compute"):
        QuantizationConfig(precision="fp16-compute", keep=["decoder.*"])
