"""Run the encoder of a bundle; needs numpy and onnxruntime.

A large batch is encoded in a few parts, whose values in between stay in the caches of the CPU, and what the parts give
is written where the decoder reads it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge import names
from seq2edge.buffers import BoundRun
from seq2edge.search import Ids, Scores
from seq2edge.sessions import run

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

TOKENS_AT_ONCE = 256


def encode(encoder: "InferenceSession", sources: list[list[int]], *, pad: int) -> dict[str, NDArray[Any]]:
    """What a decoder graph reads of the sentences: the mask of their tokens and the cross states, by input."""
    source, mask = pad_sources(sources, pad)
    states = run(encoder, {names.SOURCE: source, names.SOURCE_MASK: mask})
    cross = [output.name for output in encoder.get_outputs()]
    return {names.SOURCE_MASK: mask, **dict(zip(cross, states, strict=True))}


def encode_together(
    encoder: "InferenceSession", sources: list[list[int]], *, pad: int
) -> tuple[NDArray[np.bool_], Scores]:
    """The mask (B, S), and the cross states of all layers in one array (N, B, H, S, d), in the encoder's order."""
    source, mask = pad_sources(sources, pad)
    outputs = encoder.get_outputs()
    _, heads, _, width = outputs[0].shape
    states = np.empty((len(outputs), len(source), heads, source.shape[1], width), np.float32)
    at_once = max(1, TOKENS_AT_ONCE // source.shape[1])
    for first in range(0, len(source), at_once):
        some = slice(first, first + at_once)
        inputs = {names.SOURCE: source[some], names.SOURCE_MASK: mask[some]}
        BoundRun(encoder, inputs, {one.name: states[place, some] for place, one in enumerate(outputs)})()
    return mask, states


def pad_sources(sources: list[list[int]], pad: int) -> tuple[Ids, NDArray[np.bool_]]:
    """Sentences of different lengths as one array, and a mask that is true where there is a token."""
    lengths = np.array([len(source) for source in sources])
    mask = np.arange(lengths.max()) < lengths[:, None]  # (B, S)
    padded = np.full(mask.shape, pad, np.int64)
    padded[mask] = np.concatenate([np.asarray(source, np.int64) for source in sources])
    return padded, mask
