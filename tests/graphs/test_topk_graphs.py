"""The small graphs for devices compute the same as numpy."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from tolerances import log_softmax_rounding

from seq2edge.devices import topk_graphs
from seq2edge.search.log_softmax import log_normalizer
from seq2edge.search.top_k import top_k
from seq2edge_graphs.topk_graphs import all_graphs

SAME = log_softmax_rounding(500, 16)  # 500 logits with a standard deviation of 4
DTYPES = {"float": np.float32, "float16": np.float16, "int64": np.int64, "bool": np.bool_}


def run(file: Path, **feed: np.ndarray) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, feed)


def logits(*, ties: bool) -> np.ndarray:
    random = np.random.default_rng(3)
    values = random.normal(scale=4, size=(3, 2, 500)).astype(np.float32)
    return np.round(values) if ties else values  # after rounding, many logits of a row are equal


def test_the_files_are_up_to_date() -> None:
    assert {file.name for file in topk_graphs.FOLDER.glob("*.onnx")} == {file.name for file in all_graphs()}
    for file, model in all_graphs().items():
        assert onnx.load(file) == ir.to_proto(model), f"{file.name}: run  python -m seq2edge_graphs.topk_graphs"


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("count", [1, 2, 8, 500])
def test_the_best_tokens_are_the_same_as_in_numpy_also_with_ties(count: int, ties: bool) -> None:
    scored = logits(ties=ties)
    flat = scored.reshape(-1, 500)
    tokens, scores = run(topk_graphs.BEST, logits=scored, count=np.array([count]))
    best, _ = top_k(flat, count)
    assert (tokens.reshape(-1, count) == best).all()
    peak, log_total = log_normalizer(flat)
    expected = (np.take_along_axis(flat, best, axis=1) - peak) - log_total
    assert np.abs(scores.reshape(-1, count) - expected).max() < SAME


@pytest.mark.parametrize("ties", [False, True])
def test_the_likeliest_token_is_the_first_of_the_best(ties: bool) -> None:
    scored = logits(ties=ties)
    tokens, scores = run(topk_graphs.LIKELIEST, logits=scored)
    best, best_scores = run(topk_graphs.BEST, logits=scored, count=np.array([1]))
    assert (tokens == best).all()
    assert np.abs(scores - best_scores).max() < SAME


def test_scores_of_logits_with_nan_are_nan() -> None:
    scored = logits(ties=False)
    scored[1, 1, 7] = np.nan
    for scores in (
        run(topk_graphs.LIKELIEST, logits=scored)[1],
        run(topk_graphs.BEST, logits=scored, count=np.array([2]))[1],
    ):
        assert np.isnan(scores[1, 1]).all()
        assert np.isfinite(scores[0]).all()


@pytest.mark.parametrize("dtype", topk_graphs.DTYPES)
def test_rows_of_every_dtype_are_selected(dtype: str) -> None:
    states = (np.arange(24).reshape(4, 3, 2) % 5).astype(DTYPES[dtype])
    [selected] = run(topk_graphs.select_graph(dtype), states=states, rows=np.array([3, 1]))
    assert selected.dtype == states.dtype
    assert (selected == states[[3, 1]]).all()
