"""The scorer gives the log-probabilities and attention of the source model, at no cost for the decoder."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
from tiny_checkpoint import TINY
from tolerances import log_probability_rounding, network_rounding, sum_rounding

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import load_bundle
from seq2edge.engine.decoder_inputs import first_decoder_inputs
from seq2edge.engine.encoder import encode
from seq2edge.engine.engine import OnnxEngine
from seq2edge.scoring.scorer import Scored, Scorer, forced_log_probabilities, open_scorer
from seq2edge.search.batch_decode import decode
from seq2edge_export.checkpoint import Checkpoint, load_checkpoint
from seq2edge_export.source_model import TorchEngine
from seq2edge_graphs.passes.subgraph import inner_values

LOGITS = network_rounding(TINY, size=10)
LOG_PROBABILITIES = log_probability_rounding(LOGITS)
ATTENTION = LOGITS  # weights are the softmax of numbers as large as logits, which at most halves their errors
TEXTS = [
    "the old man sees a red house.",
    "x",
    "every bird remembers the winter sea and the girl next door forgets two green apples.",
    "nobody sells bread.",
]


@pytest.fixture(scope="module")
def checkpoint(made) -> Checkpoint:
    return load_checkpoint(made.checkpoint)


@pytest.fixture(scope="module")
def start(checkpoint: Checkpoint) -> int:
    return checkpoint.generation.decoder_start_token_id


@pytest.fixture(scope="module")
def pairs(checkpoint: Checkpoint) -> tuple[list[list[int]], list[list[int]]]:
    """Return sources and targets of other lengths: outputs of the model, and random tokens."""
    model = checkpoint.source_model()
    sources = model.tokenizer().encode(TEXTS)
    outputs = decode(TorchEngine(model.graphs, pad=model.tokens.pad), sources, model.generation)
    targets = [list(hypotheses[0].tokens) for hypotheses in outputs]
    targets[1] = [7]
    targets[3] = np.random.default_rng(0).integers(4, TINY.target_vocabulary, 31).tolist()
    assert len({len(target) for target in targets}) > 2
    return sources, targets


@pytest.fixture
def engine(bundle: Path) -> OnnxEngine:
    return OnnxEngine(load_bundle(bundle), threads=1)


@pytest.fixture
def scorer(bundle: Path, engine: OnnxEngine) -> Scorer:
    found = open_scorer(load_bundle(bundle), engine)
    assert found is not None
    return found


@torch.inference_mode()
def source_model_scores(checkpoint: Checkpoint, source: list[int], target: list[int], start: int) -> Scored:
    """One pair in PyTorch, without padding."""
    model = checkpoint.model.eval()
    ids, mask = torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool)
    inputs = torch.tensor([[start, *target[:-1]]])
    chosen = model.log_probabilities(ids, mask, inputs)[0].gather(1, torch.tensor(target)[:, None])[:, 0]
    weights: list[torch.Tensor] = []
    model.decode(inputs, model.encode(ids, mask), mask, collected_weights=weights)
    return Scored(chosen.numpy(), torch.stack(weights, dim=1)[0].numpy())


def test_log_probabilities_and_attention_match_the_source_model(
    checkpoint: Checkpoint, scorer: Scorer, pairs, start
) -> None:
    found = scorer.score(*pairs, start=start)
    for ours, source, target in zip(found, *pairs, strict=True):
        theirs = source_model_scores(checkpoint, source, target, start)
        assert ours.log_probabilities.shape == (len(target),)
        assert ours.log_probabilities.dtype == ours.attention.dtype == np.float32
        np.testing.assert_allclose(ours.log_probabilities, theirs.log_probabilities, atol=LOG_PROBABILITIES)
        assert ours.attention.shape == (2, 4, len(target), len(source))
        np.testing.assert_allclose(ours.attention, theirs.attention, atol=ATTENTION)
        np.testing.assert_allclose(ours.attention.sum(axis=3), 1, atol=sum_rounding(2 * len(source), 1.0))


def test_a_pair_does_not_depend_on_its_batch(scorer: Scorer, pairs, start) -> None:
    for together, source, target in zip(scorer.score(*pairs, start=start), *pairs, strict=True):
        (alone,) = scorer.score([source], [target], start=start)
        np.testing.assert_allclose(together.log_probabilities, alone.log_probabilities, atol=LOG_PROBABILITIES)
        np.testing.assert_allclose(together.attention, alone.attention, atol=ATTENTION)


def test_step_by_step_gives_the_same(scorer: Scorer, engine: OnnxEngine, checkpoint, pairs, start) -> None:
    found = scorer.score(*pairs, start=start)
    torch_engine = TorchEngine(checkpoint.source_model().graphs, pad=engine.padding.token)
    for stepped in (forced_log_probabilities(either, *pairs, start=start) for either in (engine, torch_engine)):
        for scored, steps in zip(found, stepped, strict=True):
            assert steps.dtype == np.float32
            np.testing.assert_allclose(scored.log_probabilities, steps, atol=LOG_PROBABILITIES)


@torch.inference_mode()
def test_beams_that_continue_a_past_can_be_scored_too(made, checkpoint, pairs) -> None:
    """Three rows a sentence with two new tokens each, behind two that the decoder has seen, where the cache grows."""
    bundle = load_bundle(made.bundles["portable"])
    engine = OnnxEngine(bundle, threads=1)
    scorer = open_scorer(bundle, engine)
    sources = pairs[0][:2]
    random = np.random.default_rng(1)
    step = engine.start(sources)
    step.step(random.integers(4, TINY.target_vocabulary, (2, 3, 2)), np.array([[0] * 3, [1] * 3]))
    tokens, rows = random.integers(4, TINY.target_vocabulary, (2, 3, 2)), np.array([[2, 0, 1], [5, 5, 3]])
    ours = scorer.scorer.run(None, {tensor_names.TARGET: tokens, tensor_names.ROWS: rows, **step.source, **step.past})
    source, mask = map(torch.from_numpy, engine.padding.pad(sources))
    past = [torch.from_numpy(state) for state in step.past.values()]
    graphs = checkpoint.source_model().graphs
    inputs = (torch.from_numpy(tokens), torch.from_numpy(rows), mask, graphs.traced.encoder(source, mask), past)
    *decoder, all_logits, attention = graphs.decoder_graphs["portable"].module(*inputs)
    np.testing.assert_allclose(ours[0], all_logits.numpy(), atol=LOGITS)
    np.testing.assert_allclose(ours[1], attention.numpy(), atol=ATTENTION)
    assert ours[0].shape == (2, 3, 2, TINY.target_vocabulary)
    assert ours[1].shape == (2, 2, 4, 3 * 2, mask.shape[1])
    for with_attention, without in zip(decoder, graphs.traced.decoder(*inputs), strict=True):
        torch.testing.assert_close(with_attention, without)


def test_no_pair_and_pairs_that_do_not_match(scorer: Scorer, start: int) -> None:
    assert scorer.score([], [], start=start) == []
    with pytest.raises(ValueError, match="1 sources, but 2 targets"):
        scorer.score([[5, 3]], [[3], [3]], start=start)


def test_an_empty_target_has_no_tokens_to_score(scorer: Scorer, start: int) -> None:
    (nothing,) = scorer.score([[5, 3]], [[]], start=start)
    assert nothing.log_probabilities.shape == (0,)
    assert nothing.attention.shape == (2, 4, 0, 2)


def test_each_graph_contains_only_what_its_outputs_need(bundle: Path) -> None:
    scores = [tensor_names.LOGITS] if bundle.name == "portable" else [tensor_names.LOGITS, tensor_names.LOG_TOTALS]
    expected = {
        tensor_names.DECODER: [*scores, *map(tensor_names.present_of, tensor_names.past(2))],
        tensor_names.SCORER: [tensor_names.ALL_LOGITS, tensor_names.ATTENTION],
    }
    inplace = [
        tensor_names.POSITIONS,
        tensor_names.LAST,
        tensor_names.TOTAL,
        tensor_names.WANTED,
        tensor_names.SOURCE_BIAS,
    ]
    where = [tensor_names.ROWS, tensor_names.SOURCE_MASK] if bundle.name == "portable" else inplace
    inputs = [tensor_names.TARGET, *where, *tensor_names.cross(2), *tensor_names.past(2)]
    for name, outputs in expected.items():
        graph = ir.load(bundle / name).graph
        assert [value.name for value in graph.outputs] == outputs
        assert [value.name for value in graph.inputs] == inputs
        used = {value for node in graph for value in node.inputs} | set(graph.outputs)
        given = [value for node in graph if node.op_type != "GroupQueryAttention" for value in node.outputs]
        assert not [value.name for value in given if value not in used]
        assert not [value.name for value in graph.initializers.values() if value not in used]


def test_the_output_layer_of_the_decoder_has_its_name(bundle: Path) -> None:
    """The trace calls it twice; in the decoder it must be found to locate a divergence from the source model."""
    layers = ["decoder_norm", "output"]  # in the ort dialect the output of the last one is the logits themselves
    expected = layers if bundle.name == "portable" else layers[:1]
    assert inner_values(bundle / tensor_names.DECODER, layers) == expected


def test_nothing_is_baked_into_the_shapes_of_the_scorer(bundle: Path) -> None:
    shapes = {
        value.name: [str(size) for size in value.shape] for value in ir.load(bundle / tensor_names.SCORER).graph.outputs
    }
    assert shapes[tensor_names.ALL_LOGITS] == ["batch", "rows_per_sentence", "new_length", "320"]
    assert shapes[tensor_names.ATTENTION] == ["batch", "2", "4", "new_length*rows_per_sentence", "source_length"]


def test_the_scorer_has_the_inputs_of_the_decoder(scorer: Scorer, engine: OnnxEngine, pairs) -> None:
    read = first_decoder_inputs(scorer.scorer, np.array([[2]]), encode(engine.encoder, *engine.padding.pad(pairs[0])))
    expected = {entry.name: entry.shape for entry in engine.decoder.get_inputs()}
    assert {entry.name: entry.shape for entry in scorer.scorer.get_inputs()} == expected
    assert expected.keys() == read.keys()
