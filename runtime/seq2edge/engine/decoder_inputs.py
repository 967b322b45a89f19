"""What a decoder graph is given when nothing has been decoded yet.

The words that the sentences of a batch may be translated to, as a decoder is given them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.search import Ids, Scores

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, NodeArg

TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
}


def first_decoder_inputs(
    decoder: "InferenceSession", targets: Ids, read: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:  # (B, T)
    """Targets from their start, one row a sentence, in either form of the graph, behind what the encoder has read."""
    rows = np.arange(len(targets))[:, None]  # (B, 1)
    feed: dict[str, NDArray[Any]] = {tensor_names.TARGET: targets[:, None], **empty_past(decoder, rows=len(targets))}
    if not has_inplace_cache(decoder):
        return {**feed, **read, tensor_names.ROWS: rows}
    length = targets.shape[1]
    cross = {name: states for name, states in read.items() if tensor_names.is_cross(name)}
    return {
        **feed,
        **cross,
        tensor_names.POSITIONS: np.arange(length),
        tensor_names.LAST: np.full(len(targets), length - 1, np.int32),
        tensor_names.TOTAL: np.full(1, length, np.int32),
        tensor_names.WANTED: rows[:, 0],
        tensor_names.SOURCE_BIAS: bias_of(read[tensor_names.SOURCE_MASK], length),
    }


def bias_of(mask: NDArray[np.bool_], queries: int) -> Scores:  # (B, S) -> (B, 1, Q, S)
    """What attention adds to its scores so that so many queries see only what is there."""
    bias = np.where(mask, np.float32(0), np.finfo(np.float32).min)
    return np.repeat(bias[:, None, None], queries, axis=2)


def has_inplace_cache(decoder: "InferenceSession") -> bool:
    """Whether the cache is in buffers that the graph fills in place; else every call gives a longer one."""
    return tensor_names.LAST in {entry.name for entry in decoder.get_inputs()}


def empty_past(decoder: "InferenceSession", *, rows: int) -> dict[str, Scores]:
    """A cache of no tokens, by input."""
    inputs = [entry for entry in decoder.get_inputs() if tensor_names.is_past(entry.name)]
    return {entry.name: _empty(entry, rows=rows) for entry in inputs}


def _empty(past: "NodeArg", *, rows: int) -> Scores:
    sizes = {tensor_names.PAST_ROWS: rows, tensor_names.PAST_LENGTH: 0}
    shape = [sizes[size] if isinstance(size, str) else size for size in past.shape]
    return np.zeros(shape, TYPES[past.type])


@dataclass(frozen=True, eq=False)
class RestrictedVocabulary:
    """Words of a batch of B sentences: U ids, what their logits are computed with, and who may say them."""

    ids: Ids  # (U,), in order
    matrix: Mapping[str, NDArray[Any]]  # by input
    bias: Scores  # (B, U): what is added to their logits, minus infinity where a sentence may not say a word

    def only(self, kept: Ids) -> "RestrictedVocabulary":
        """Some of the sentences."""
        return replace(self, bias=self.bias[kept])

    def inputs(self, bias: Scores) -> dict[str, NDArray[Any]]:
        """What the graph reads, with the bias in its shape."""
        return {**self.matrix, tensor_names.WORD_BIAS: bias}
