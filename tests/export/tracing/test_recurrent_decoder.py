"""A recurrent decoder (SSRU) as a bundle: one graph for the first step, a prefix and later steps."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from marian_model import EOS, Marian, Reference, left_of
from marian_model import made as made_model
from tiny_checkpoint import SENTENCES
from tolerances import chain_rounding, log_probability_rounding, sum_rounding

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle, load_bundle
from seq2edge.cli.report import describe_bundle
from seq2edge.engine.engine import OnnxEngine
from seq2edge.scoring.scorer import forced_log_probabilities, open_scorer
from seq2edge.search.batch_decode import decode
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.source_model import SourceModel, TorchEngine
from seq2edge_export.verify import verify
from seq2edge_graphs.bundle_writer import describe_files, write_manifest
from seq2edge_graphs.quantize.apply import plan_precision
from seq2edge_graphs.quantize.calibration import MAX_ADDED_NOISE
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.pipeline import quantize_bundle
from seq2edge_graphs.quantize.rewrite import load_graphs, temporary_bundle

WIDTH, VOCABULARY = 64, 64
LOGITS = chain_rounding(2 * 2 * 10 * WIDTH, 5)  # two layers on both sides, each with some ten sums; logits of about 5
TEXTS = [*SENTENCES[::90], "x"]


@dataclass(frozen=True)
class Recurrent:
    source_model: SourceModel
    bundle: Path
    reference: Reference

    @property
    def sources(self) -> list[list[int]]:
        return self.source_model.tokenizer().encode(TEXTS)

    @property
    def short(self) -> list[str]:
        """Return the texts whose output ends soon; most outputs of an untrained model do not end."""
        outputs = [self.reference.greedy(source, 24) for source in self.sources]
        return [text for text, tokens in zip(TEXTS, outputs, strict=True) if tokens[-1] == EOS]


@pytest.fixture(scope="module")
def made(student) -> Recurrent:
    """Return a model in the format of Bergamot, its bundle, and a reference implementation in numpy."""
    model = made_model()
    kept = {name: left_of(name, tensor, "bergamot8") for name, tensor in model.tensors.items()}
    reference = Reference(Marian(model.config, kept))
    return Recurrent(load_checkpoint(student.checkpoint).source_model(), student.bundles["ort"], reference)


@pytest.mark.parametrize(("prefix", "beams"), [(1, 1), (1, 3), (5, 3)])
def test_the_logits_of_every_step_match(made: Recurrent, prefix: int, beams: int) -> None:
    """Continue random rows with random tokens: a prefix, then one or two tokens at a time, while sentences end."""
    random = np.random.default_rng(0)
    ours = OnnxEngine(load_bundle(made.bundle), threads=1).start(made.sources)
    theirs = TorchEngine(made.source_model.graphs, pad=0).start(made.sources)
    kept, before = len(TEXTS), 1
    rows, tokens = np.arange(kept)[:, None], random.integers(2, VOCABULARY, (kept, 1, prefix))
    for step in range(6):
        np.testing.assert_allclose(ours.step(tokens, rows).logits, theirs.step(tokens, rows).logits, atol=LOGITS)
        kept -= 2 * (step == 3)
        rows = np.arange(kept)[:, None] * before + random.integers(0, before, (kept, beams))
        tokens = random.integers(2, VOCABULARY, (kept, beams, 1 + step % 2))
        before = beams


def test_the_state_does_not_grow(made: Recurrent) -> None:
    step = OnnxEngine(load_bundle(made.bundle), threads=1).start(made.sources)
    rows, count = np.arange(len(TEXTS))[:, None], len(TEXTS)
    for _ in range(3):
        step.step(np.full((count, 1, 2), 7), rows)
        assert {name: state.shape for name, state in step.past.items()} == {
            "past_cell.0": (count, WIDTH),
            "past_cell.1": (count, WIDTH),
            "past_count": (count,),
        }
    assert step.past["past_count"].tolist() == [6] * count


def test_all_axes_that_change_are_dynamic(made: Recurrent) -> None:
    model = onnx.load(made.bundle / tensor_names.DECODER, load_external_data=False)
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert shapes[tensor_names.TARGET] == ["batch", "rows_per_sentence", "new_length"]
    assert shapes["past_cell.1"] == ["past_rows", WIDTH]
    assert shapes["past_count"] == ["past_rows"]
    assert [name for name in shapes if name.startswith("present")] == list(
        map(tensor_names.present_of, tensor_names.past_cells(2))
    )


def test_it_matches_the_source_model(made: Recurrent) -> None:
    verdict = verify(load_bundle(made.bundle), made.source_model, texts=made.short)
    assert verdict.passed, str(verdict)
    assert verdict.parity.greedy_equal == verdict.parity.beam_equal == 1.0


def test_it_matches_the_reference_implementation_token_for_token(made: Recurrent) -> None:
    results = Translator(made.bundle, threads=1).translate(TEXTS, num_beams=1, max_new_tokens=24)
    expected = [made.reference.greedy(source, 24) for source in made.sources]
    assert [list(result.tokens) for result in results] == expected
    assert len({tuple(tokens) for tokens in expected}) > 2


def test_the_scorer_matches_step_by_step_scores(made: Recurrent) -> None:
    bundle = Bundle(made.bundle, load_bundle(made.bundle).manifest)
    engine = OnnxEngine(bundle, threads=1)
    scorer = open_scorer(bundle, engine)
    assert scorer is not None
    targets = [found[0].tokens for found in decode(engine, made.sources, made.source_model.generation)]
    assert len(set(map(tuple, targets))) > 1
    start = made.source_model.generation.decoder_start_token_id
    steps = forced_log_probabilities(engine, made.sources, targets, start=start)
    for whole, one in zip(scorer.score(made.sources, targets, start=start), steps, strict=True):
        np.testing.assert_allclose(whole.log_probabilities, one, atol=log_probability_rounding(LOGITS))
        np.testing.assert_allclose(whole.attention.sum(axis=3), 1, atol=sum_rounding(2 * whole.attention.shape[3], 1.0))


def test_a_changed_gate_is_detected_and_located(made: Recurrent, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made.bundle, tmp_path / "broken"))
    model = onnx.load(folder / tensor_names.DECODER, load_external_data=False)
    gate = next(tensor for tensor in model.graph.initializer if tensor.name == "decoder.1.cell.gate.weight")
    offset = int(next(entry.value for entry in gate.external_data if entry.key == "offset"))
    content = np.fromfile(folder / tensor_names.WEIGHTS, np.uint8)
    content[offset : offset + 400].view(np.float32)[:] += 2
    content.tofile(folder / tensor_names.WEIGHTS)
    write_manifest(folder, replace(load_bundle(made.bundle).manifest, files=describe_files(folder)))
    verdict = verify(load_bundle(folder), made.source_model, texts=made.short)
    assert verdict.divergence is not None
    assert verdict.divergence.layer == "decoder.1.cell.gate"


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_the_cells_are_kept_in_fewer_bits_and_the_positions_are_computed(
    made: Recurrent, tmp_path: Path, precision: str
) -> None:
    small = quantize_bundle(made.bundle, tmp_path / "small", QuantizationConfig(precision=precision), compare=False)  # type: ignore[arg-type]
    model = onnx.load(small.folder / tensor_names.DECODER, load_external_data=False)
    kept = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    byte_types = {onnx.TensorProto.INT8, onnx.TensorProto.UINT8}
    assert {kept[f"decoder.{layer}.cell.{part}.weight"] for layer in (0, 1) for part in ("input", "gate")} <= byte_types
    assert "Sin" in {node.op_type for node in model.graph.node}
    # Noise of a share n makes a correlation of 1 - n / 2; 0.9988 and 0.964 with these weights, which are untrained.
    assert correlation(made, small) > (1 - MAX_ADDED_NOISE / 2 if precision == "int8" else 0.95)


def test_with_a_scale_for_each_row_int8_is_closer(made: Recurrent) -> None:
    bundle = Bundle(made.bundle, load_bundle(made.bundle).manifest)
    with temporary_bundle(bundle, plan_precision(load_graphs(bundle).values(), "int8")) as rows:
        assert correlation(made, rows) > 0.999  # 0.9995 with these weights


def correlation(made: Recurrent, bundle: Bundle) -> float:
    """Return the correlation of the first logits with those in float32."""
    ours, theirs = (OnnxEngine(one, threads=1).start(made.sources) for one in (bundle, load_bundle(made.bundle)))
    tokens, rows = np.full((len(TEXTS), 1, 1), 0), np.arange(len(TEXTS))[:, None]
    found, expected = ours.step(tokens, rows).logits, theirs.step(tokens, rows).logits
    return float(np.corrcoef(found.ravel(), expected.ravel())[0, 1])


def test_a_report_names_the_recurrent_decoder(made: Recurrent) -> None:
    rows = dict(describe_bundle(load_bundle(made.bundle), source_length=10, target_length=20))
    assert rows["layers"] == "2 encoder, 2 decoder (SSRU)"
    assert rows["cache of a sentence"].startswith(f"{(2 * (2 * 10 * WIDTH + WIDTH) * 4 + 8) / 1e6:.3f} MB")


def test_a_sentence_does_not_depend_on_its_batch(made: Recurrent) -> None:
    translator = Translator(made.bundle, threads=1)
    for text, result in zip(TEXTS, translator.translate(TEXTS), strict=True):
        assert translator.translate([text])[0].tokens == result.tokens
