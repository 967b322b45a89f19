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


def first_call(
    decoder: "InferenceSession", targets: Ids, read: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:  # (B, T)
    """Targets from their start, one row a sentence, in either form of the graph, behind what the encoder has read."""
    rows = np.arange(len(targets))[:, None]  # (B, 1)
    feed: dict[str, NDArray[Any]] = {names.TARGET: targets[:, None], **empty_past(decoder, rows=len(targets))}
    if not is_buffered(decoder):
        return {**feed, **read, names.ROWS: rows}
    length = targets.shape[1]
    cross = {name: states for name, states in read.items() if names.is_cross(name)}
    return {
        **feed,
        **cross,
        names.POSITIONS: np.arange(length),
        names.LAST: np.full(len(targets), length - 1, np.int32),
        names.TOTAL: np.full(1, length, np.int32),
        names.WANTED: rows[:, 0],
        names.SOURCE_BIAS: bias_of(read[names.SOURCE_MASK], length),
    }


def bias_of(mask: NDArray[np.bool_], queries: int) -> Scores:  # (B, S) -> (B, 1, Q, S)
    """What attention adds to its scores so that so many queries see only what is there."""
    bias = np.where(mask, np.float32(0), np.finfo(np.float32).min)
    return np.repeat(bias[:, None, None], queries, axis=2)


def is_buffered(decoder: "InferenceSession") -> bool:
    """Whether the cache is in buffers that the graph fills in place; else every call gives a longer one."""
    return names.LAST in {entry.name for entry in decoder.get_inputs()}


def empty_past(decoder: "InferenceSession", *, rows: int) -> dict[str, Scores]:
    """A cache of no tokens, by input."""
    inputs = [entry for entry in decoder.get_inputs() if names.is_past(entry.name)]
    return {entry.name: _empty(entry, rows=rows) for entry in inputs}


def _empty(past: "NodeArg", *, rows: int) -> Scores:
    sizes = {names.PAST_ROWS: rows, names.PAST_LENGTH: 0}
    shape = [sizes[size] if isinstance(size, str) else size for size in past.shape]
    return np.zeros(shape, TYPES[past.type])
