"""The exported graphs match the PyTorch model: logits, tokens and scores."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from steps import LOGITS, assert_steps_close
from tiny_checkpoint import TINY, write_checkpoint
from tolerances import log_probability_rounding, score_rounding

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Dialect, load_bundle
from seq2edge.config.generation import GenerationOptions
from seq2edge.engine.encoder import pad_sources
from seq2edge.engine.engine import OnnxEngine
from seq2edge.search.batch_decode import decode
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.export import export_bundle
from seq2edge_export.source_model import TorchEngine

TEXTS = [
    "the old man sees a red house.",
    "nobody sells bread.",
    "every bird remembers the winter sea and the girl next door forgets two green apples.",
    "x",
    "größer 水 🙂",
]


def score_limit(tokens: int, options: GenerationOptions) -> float:
    penalty = options.length_penalty if options.num_beams > 1 else 0  # greedy scores are sums
    return score_rounding(tokens, log_probability_rounding(LOGITS), penalty)


@pytest.fixture(scope="module")
def source_model(made):
    return load_checkpoint(made.checkpoint).source_model()


@pytest.fixture
def engines(bundle: Path, source_model):
    return OnnxEngine(load_bundle(bundle), threads=1), TorchEngine(source_model.graphs, pad=source_model.tokens.pad)


@pytest.fixture
def sources(source_model) -> list[list[int]]:
    encoded: list[list[int]] = source_model.tokenizer().encode(TEXTS)
    return encoded


def test_cross_attention_keys_and_values_match(engines, sources) -> None:
    ours, theirs = engines[0].start(sources), engines[1].start(sources)
    real = pad_sources(sources, 0)[1][:, None, :, None]  # the padding is never attended to
    for name, states in theirs.cross_states.items():
        np.testing.assert_allclose(ours.cross_states[name][:, :, : real.shape[2]] * real, states * real, atol=LOGITS)


@pytest.mark.parametrize("prefix", [1, 2, 7])
@pytest.mark.parametrize("beams", [1, 3])
def test_the_logits_of_every_step_match(engines, sources, prefix: int, beams: int) -> None:
    ours, theirs = engines[0].start(sources), engines[1].start(sources)
    assert_steps_close(ours, theirs, len(sources), prefix=prefix, beams=beams)


def test_a_full_cache_grows(engines, sources) -> None:
    ours, theirs = (engine.start(sources[:2]) for engine in engines)
    tokens, rows = np.full((2, 1, 30), 9), np.arange(2)[:, None]
    for _ in range(30):  # beyond the initial capacity
        np.testing.assert_allclose(ours.step(tokens, rows).logits, theirs.step(tokens, rows).logits, atol=LOGITS)
        tokens = tokens[:, :, :1] + 1


@pytest.mark.parametrize("num_beams", [1, 4])
def test_translations_match_token_for_token(engines, sources, source_model, num_beams: int) -> None:
    options = replace(source_model.generation, num_beams=num_beams)
    ours, theirs = (decode(engine, sources, options) for engine in engines)
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine[0].tokens == yours[0].tokens
        limit = score_limit(len(mine[0].tokens), options)
        assert mine[0].score == pytest.approx(yours[0].score, abs=limit)
    assert len({tuple(mine[0].tokens) for mine in ours}) > 1  # the outputs differ, so the comparison is meaningful


def test_a_sentence_does_not_depend_on_its_batch(bundle: Path) -> None:
    translator = Translator(bundle, threads=1)
    together = translator.translate(TEXTS)
    for text, result in zip(TEXTS, together, strict=True):
        alone = translator.translate([text])[0]
        assert alone.tokens == result.tokens
        limit = score_limit(len(alone.tokens), translator.manifest.generation)
        assert alone.score == pytest.approx(result.score, abs=limit)


def test_the_portable_graphs_hold_standard_operators_only(made) -> None:
    for name in (tensor_names.ENCODER, tensor_names.DECODER, tensor_names.SCORER):
        path = made.bundles["portable"] / name
        onnx.checker.check_model(path, full_check=True)
        model = onnx.load(path)
        assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}
        assert [entry.domain for entry in model.opset_import] == [""]


def test_the_portable_graphs_run_in_another_implementation(made, source_model, sources) -> None:
    folder = made.bundles["portable"]
    encoder, decoder = (
        ReferenceEvaluator(onnx.load(folder / name)) for name in (tensor_names.ENCODER, tensor_names.DECODER)
    )
    theirs = TorchEngine(source_model.graphs, pad=0).start(sources[:2])
    source, mask = pad_sources(sources[:2], pad=0)
    cross = encoder.run(None, {tensor_names.SOURCE: source, tensor_names.SOURCE_MASK: mask})
    past = [np.zeros((2, 4, 0, 8), np.float32)] * 4
    tokens, rows = np.array([[[2, 9]], [[2, 11]]]), np.array([[0], [1]])
    for _ in range(3):
        feed = {tensor_names.TARGET: tokens, tensor_names.ROWS: rows, tensor_names.SOURCE_MASK: mask}
        feed.update(zip(tensor_names.cross(2), cross, strict=True))
        feed.update(zip(tensor_names.past(2), past, strict=True))
        logits, *past = decoder.run(None, feed)
        np.testing.assert_allclose(logits, theirs.step(tokens, rows).logits, atol=LOGITS)
        tokens = logits.argmax(-1)[:, :, None]


def test_the_ort_graphs_hold_fused_attention(made) -> None:
    for name, inplace in ((tensor_names.ENCODER, 0), (tensor_names.DECODER, 2)):
        model = onnx.load(made.bundles["ort"] / name, load_external_data=False)
        operators = [node.op_type for node in model.graph.node]
        assert operators.count("MultiHeadAttention") == 2
        assert operators.count("GroupQueryAttention") == inplace
        assert operators.count("Softmax") == (name == tensor_names.DECODER)  # of the logits


def test_all_axes_that_change_are_dynamic(bundle: Path) -> None:
    model = onnx.load(bundle / tensor_names.DECODER, load_external_data=False)
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    assert shapes[tensor_names.TARGET] == ["batch", "rows_per_sentence", "new_length"]
    if bundle.name == "portable":
        assert shapes[tensor_names.ROWS] == ["batch", "rows_per_sentence"]
    else:
        assert (shapes[tensor_names.POSITIONS], shapes[tensor_names.LAST]) == (["new_length"], ["past_rows"])
        assert (shapes[tensor_names.TOTAL], shapes[tensor_names.WANTED]) == ([1], ["wanted_rows"])
        assert shapes[tensor_names.SOURCE_BIAS] == ["batch", 1, "queries", "source_length"]
    assert shapes["past_keys.0"] == ["past_rows", 4, "past_length", 8]
    assert shapes["cross_keys.0"] == ["batch", 4, "source_length", 8]


def test_a_model_with_separate_vocabularies_and_learned_positions_exports(tmp_path) -> None:
    shape = replace(TINY, joint_vocabulary=False, tied_output=False, norm_first=False, positions="learned")
    shape = replace(shape, embedding_norm=True, zero_start=True, activation="gelu_sigmoid")
    source_model = load_checkpoint(write_checkpoint(tmp_path / "checkpoint", shape)).source_model()
    made = export_bundle(tmp_path / "checkpoint", tmp_path / "bundle")
    sources = source_model.tokenizer().encode(TEXTS)
    ours = decode(OnnxEngine(made, threads=1), sources, source_model.generation)
    theirs = decode(TorchEngine(source_model.graphs, pad=0), sources, source_model.generation)
    assert [found[0].tokens for found in ours] == [found[0].tokens for found in theirs]


@pytest.mark.parametrize(("dialect", "gated"), [("ort", True), ("portable", False)])
def test_a_model_with_relative_positions_exports(tmp_path, dialect: Dialect, gated: bool) -> None:
    shape = replace(TINY, positions="relative", relative_buckets=8, relative_distance=6, norm="rms", bias=False)
    shape = replace(shape, attention_width=24, attention_scale=1.0, embedding_scale=1.0, gated=gated)
    shape = replace(shape, activation="gelu_tanh" if gated else "relu", output_scale=1.0 if gated else 32**-0.5)
    folder = write_checkpoint(tmp_path / "checkpoint", shape, scaled=False)  # unscaled scores amplify rounding
    source_model = load_checkpoint(folder).source_model()
    made = export_bundle(folder, tmp_path / "bundle", dialect=dialect)
    sources = source_model.tokenizer().encode(TEXTS)
    ours, theirs = OnnxEngine(made, threads=1), TorchEngine(source_model.graphs, pad=0)
    assert_steps_close(ours.start(sources), theirs.start(sources), len(sources), prefix=3, beams=2)
    found, expected = (decode(engine, sources, source_model.generation) for engine in (ours, theirs))
    assert [one[0].tokens for one in found] == [one[0].tokens for one in expected]
