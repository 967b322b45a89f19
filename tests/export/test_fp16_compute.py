"""Bundles that compute in float16 match PyTorch in float32, and their KV cache stays in float16."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hostile_bundle import change_graph, copy_bundle
from onnx import TensorProto
from tiny_checkpoint import SENTENCES, TINY, write_checkpoint
from tolerances import FLOAT16, chain_rounding, log_probability_rounding, score_rounding

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle, load_bundle
from seq2edge.cli.report import bundle_facts
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import BundleError, UsageError
from seq2edge.search.batch_decode import decode
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.export import export_bundle
from seq2edge_export.source_model import TorchEngine
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.pipeline import quantize_bundle

FP16_COMPUTE = QuantizationConfig(precision="fp16-compute")
TEXTS = [SENTENCES[row] for row in range(0, 200, 25)]
TOKENS = 16
# Every sum is rounded to float16 once, where it ends: attention has four, a feed-forward two, a norm one.
ROUNDED = TINY.encoder_layers * (4 + 2 + 2) + TINY.decoder_layers * (8 + 2 + 3) + 1
CLOSE = chain_rounding(ROUNDED, 4, FLOAT16)  # logits of about 4


@pytest.fixture(scope="module")
def half(made, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return quantize_bundle(made.bundles["portable"], tmp_path_factory.mktemp("half") / "bundle", FP16_COMPUTE)


def test_the_cache_stays_in_float16_between_calls(half: Bundle) -> None:
    step = OnnxEngine(half, threads=1).start([[5, 6, 7], [8]])
    for rows in ([[0], [1]], [[0, 0], [1, 1]], [[1, 0], [2, 3]]):
        logits = step.step(np.full((2, len(rows[0]), 1), 9), np.array(rows)).logits
        assert logits.dtype == np.float32
        assert {value.dtype for name, value in step.past.items()} == {np.dtype(np.float16)}
    assert {value.dtype for value in step.cross_states.values()} == {np.dtype(np.float16)}


def test_it_keeps_the_limits_of_float16_and_takes_half_the_cache(half: Bundle, made) -> None:
    assert half.manifest.precision == "fp16-compute"
    assert half.manifest.parity is not None  # it would not be there otherwise
    whole = load_bundle(made.bundles["portable"])
    caches = [bundle_facts(one, source_length=9, target_length=9)["cost"] for one in (half, whole)]
    assert 2 * caches[0]["cache_bytes_per_sentence"] == caches[1]["cache_bytes_per_sentence"]


@pytest.mark.parametrize("num_beams", [1, 4])
def test_it_matches_pytorch_in_float32(half: Bundle, made, num_beams: int) -> None:
    source_model = load_checkpoint(made.checkpoint).source_model()
    sources = source_model.tokenizer().encode(TEXTS)
    options = replace(source_model.generation, num_beams=num_beams, max_new_tokens=TOKENS)
    ours = decode(OnnxEngine(half, threads=1), sources, options)
    theirs = decode(TorchEngine(source_model.graphs, pad=source_model.tokens.pad), sources, options)
    assert [one[0].tokens for one in ours] == [one[0].tokens for one in theirs]
    assert [one[0].score for one in ours] == pytest.approx(
        [one[0].score for one in theirs], abs=score_rounding(TOKENS, log_probability_rounding(CLOSE))
    )


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
    ids=["rms norms and relative positions", "a recurrent decoder"],
)
def test_other_architectures_compute_in_float16_too(tmp_path: Path, shape) -> None:
    folder = write_checkpoint(tmp_path / "checkpoint", shape, scaled=False)
    source_model = load_checkpoint(folder).source_model()
    made = export_bundle(folder, tmp_path / "bundle", precision=FP16_COMPUTE, dialect="portable", compare=False)
    sources = source_model.tokenizer().encode(TEXTS[:3])
    ours = OnnxEngine(made, threads=1).start(sources)
    theirs = TorchEngine(source_model.graphs, pad=source_model.tokens.pad).start(sources)
    tokens, rows = np.full((3, 1, 2), 9), np.arange(3)[:, None]
    for _ in range(4):
        np.testing.assert_allclose(ours.step(tokens, rows).logits, theirs.step(tokens, rows).logits, atol=CLOSE)
        tokens = tokens[:, :, :1] + 1


def test_a_cache_that_changes_its_dtype_between_calls_is_refused(half: Bundle, tmp_path: Path) -> None:
    copy = copy_bundle(tmp_path / "copy", half.folder)

    def widen(model: onnx.ModelProto) -> None:
        [present] = [value for value in model.graph.output if value.name == "present_keys.1"]
        present.type.tensor_type.elem_type = TensorProto.FLOAT

    change_graph(copy, widen)
    with pytest.raises(BundleError, match=r"decoder\.onnx cannot be called: .*'past_keys\.1'.* returns it as float32"):
        load_bundle(copy)


def test_an_encoder_of_another_dtype_is_refused(half: Bundle, made, tmp_path: Path) -> None:
    copy = copy_bundle(tmp_path / "copy", half.folder)

    def widen(model: onnx.ModelProto) -> None:
        for value in model.graph.output:
            value.type.tensor_type.elem_type = TensorProto.FLOAT

    change_graph(copy, widen, tensor_names.ENCODER)
    with pytest.raises(BundleError, match="which the encoder does not return"):
        load_bundle(copy)


def test_it_needs_the_portable_dialect_and_rounds_everything(made, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--dialect portable"):
        quantize_bundle(made.bundles["ort"], tmp_path / "out", FP16_COMPUTE)
    with pytest.raises(UsageError, match="--keep-precision cannot be used with --precision fp16-compute"):
        QuantizationConfig(precision="fp16-compute", keep=["decoder.*"])
