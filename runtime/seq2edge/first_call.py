"""What a decoder graph is given when nothing has been decoded yet; needs numpy."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge import names
from seq2edge.search import Ids, Scores

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, NodeArg

TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
}


def first_call(decoder: "InferenceSession", targets: Ids) -> dict[str, NDArray[Any]]:  # (B, T)
    """Targets from their start, one row a sentence, in either form of the graph."""
    rows = np.arange(len(targets))[:, None]  # (B, 1)
    feed: dict[str, NDArray[Any]] = {names.TARGET: targets[:, None], **empty_past(decoder, rows=len(targets))}
    if is_buffered(decoder):
        return {**feed, names.LENGTH: np.zeros(1, np.int64), names.WANTED: rows[:, 0]}
    return {**feed, names.ROWS: rows}


def is_buffered(decoder: "InferenceSession") -> bool:
    """Whether the cache is in buffers that the graph fills in place; else every call gives a longer one."""
    return names.LENGTH in {entry.name for entry in decoder.get_inputs()}


def empty_past(decoder: "InferenceSession", *, rows: int) -> dict[str, Scores]:
    """A cache of no tokens, by input."""
    inputs = [entry for entry in decoder.get_inputs() if names.is_past(entry.name)]
    return {entry.name: _empty(entry, rows=rows) for entry in inputs}


def _empty(past: "NodeArg", *, rows: int) -> Scores:
    sizes = {names.PAST_ROWS: rows, names.PAST_LENGTH: 0}
    shape = [sizes[size] if isinstance(size, str) else size for size in past.shape]
    return np.zeros(shape, TYPES[past.type])
