"""The small graphs for devices say what numpy says."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from seq2edge.devices import topk_graphs
from seq2edge.search.log_softmax import log_normalizer
from seq2edge.search.top_k import top_k
from seq2edge_graphs.topk_graphs import all_graphs

NUMBERS = {"float": np.float32, "float16": np.float16, "int64": np.int64, "bool": np.bool_}


def run(file: Path, **feed: np.ndarray) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, feed)


def logits(*, ties: bool) -> np.ndarray:
    random = np.random.default_rng(3)
    numbers = random.normal(scale=4, size=(3, 2, 500)).astype(np.float32)
    return np.round(numbers) if ties else numbers  # rounded, every row has many equal ones


def test_the_files_are_what_the_module_makes() -> None:
    assert {file.name for file in topk_graphs.FOLDER.glob("*.onnx")} == {file.name for file in all_graphs()}
    for file, model in all_graphs().items():
        assert onnx.load(file) == ir.to_proto(model), f"{file.name}: run  python -m seq2edge_graphs.topk_graphs"


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("count", [1, 2, 8, 500])
def test_the_best_tokens_are_numpys_also_among_equal_scores(count: int, ties: bool) -> None:
    given = logits(ties=ties)
    flat = given.reshape(-1, 500)
    tokens, scores = run(topk_graphs.BEST, logits=given, count=np.array([count]))
    wanted, _ = top_k(flat, count)
    assert (tokens.reshape(-1, count) == wanted).all()
    peak, log_total = log_normalizer(flat)
    expected = (np.take_along_axis(flat, wanted, axis=1) - peak) - log_total
    assert np.abs(scores.reshape(-1, count) - expected).max() < 1e-5  # sums of 500 numbers in another order


@pytest.mark.parametrize("ties", [False, True])
def test_the_likeliest_token_is_the_first_of_the_best(ties: bool) -> None:
    given = logits(ties=ties)
    tokens, scores = run(topk_graphs.LIKELIEST, logits=given)
    best, best_scores = run(topk_graphs.BEST, logits=given, count=np.array([1]))
    assert (tokens == best).all()
    assert np.abs(scores - best_scores).max() < 1e-6


def test_scores_of_what_is_not_a_number_are_none() -> None:
    given = logits(ties=False)
    given[1, 1, 7] = np.nan
    for scores in (
        run(topk_graphs.LIKELIEST, logits=given)[1],
        run(topk_graphs.BEST, logits=given, count=np.array([2]))[1],
    ):
        assert np.isnan(scores[1, 1]).all()
        assert np.isfinite(scores[0]).all()


@pytest.mark.parametrize("kind", topk_graphs.KINDS)
def test_rows_of_every_kind_of_numbers_are_selected(kind: str) -> None:
    states = (np.arange(24).reshape(4, 3, 2) % 5).astype(NUMBERS[kind])
    [found] = run(topk_graphs.selecting(kind), states=states, rows=np.array([3, 1]))
    assert found.dtype == states.dtype
    assert (found == states[[3, 1]]).all()
