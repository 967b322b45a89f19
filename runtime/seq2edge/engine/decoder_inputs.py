"""Build the inputs of a decoder graph."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.search import Ids, Scores

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, NodeArg

DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
}


def first_decoder_inputs(
    decoder: "InferenceSession", targets: Ids, encoded: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:  # (B, T)
    """Return the inputs of a first call with whole targets, one row per sentence, for either kind of KV cache."""
    rows = np.arange(len(targets))[:, None]  # (B, 1)
    feed: dict[str, NDArray[Any]] = {tensor_names.TARGET: targets[:, None], **empty_past(decoder, rows=len(targets))}
    if not has_inplace_cache(decoder):
        return {**feed, **encoded, tensor_names.ROWS: rows}
    length = targets.shape[1]
    cross = {name: states for name, states in encoded.items() if tensor_names.is_cross(name)}
    return {
        **feed,
        **cross,
        tensor_names.POSITIONS: np.arange(length),
        tensor_names.LAST: np.full(len(targets), length - 1, np.int32),
        tensor_names.TOTAL: np.full(1, length, np.int32),
        tensor_names.WANTED: rows[:, 0],
        tensor_names.SOURCE_BIAS: source_bias(encoded[tensor_names.SOURCE_MASK], length),
    }


def source_bias(mask: NDArray[np.bool_], queries: int) -> Scores:  # (B, S) -> (B, 1, Q, S)
    """Return what cross-attention adds to its scores so that no query sees padding."""
    bias = np.where(mask, np.float32(0), np.finfo(np.float32).min)
    return np.repeat(bias[:, None, None], queries, axis=2)


def has_inplace_cache(decoder: "InferenceSession") -> bool:
    """Whether the graph writes to its KV cache in place; otherwise every call returns a longer one."""
    return tensor_names.LAST in {entry.name for entry in decoder.get_inputs()}


def empty_past(decoder: "InferenceSession", *, rows: int, length: int = 0) -> dict[str, Scores]:
    """Return a KV cache without tokens, or with zeros for ``length`` tokens, by input."""
    inputs = [entry for entry in decoder.get_inputs() if tensor_names.is_past(entry.name)]
    return {entry.name: _empty(entry, rows=rows, length=length) for entry in inputs}


def _empty(past: "NodeArg", *, rows: int, length: int) -> Scores:
    sizes = {tensor_names.PAST_ROWS: rows, tensor_names.PAST_LENGTH: length}
    shape = [sizes[size] if isinstance(size, str) else size for size in past.shape]
    return np.zeros(shape, DTYPES[past.type])


def vocabulary_size(decoder: "InferenceSession") -> int:
    return int(next(one.shape[-1] for one in decoder.get_outputs() if one.name == tensor_names.LOGITS))


@dataclass(frozen=True, eq=False)
class RestrictedVocabulary:
    """The part of the vocabulary that the B sentences of a batch may use, as inputs of the decoder."""

    token_ids: Ids  # (U,), sorted
    matrix: Mapping[str, NDArray[Any]]  # by input: the rows of the output projection for these ids
    bias: Scores  # (B, U): added to the logits; minus infinity where a sentence may not use an id

    def only(self, kept: Ids) -> "RestrictedVocabulary":
        """Keep some of the sentences."""
        return replace(self, bias=self.bias[kept])

    def inputs(self, bias: Scores) -> dict[str, NDArray[Any]]:
        """Return the inputs of the graph, with the bias in the shape that it expects."""
        return {**self.matrix, tensor_names.WORD_BIAS: bias}
