"""Run the encoder of a bundle.

A large batch is encoded in several parts of similar length, so that little is spent on padding and the activations stay
in the CPU's caches.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.devices.session import run
from seq2edge.engine.array_pool import ArrayPool
from seq2edge.errors import BundleError
from seq2edge.search import Ids, Scores

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

TOKENS_AT_ONCE = 256


def encode(encoder: "InferenceSession", sources: list[list[int]], *, pad: int) -> dict[str, NDArray[Any]]:
    """Return what a decoder reads of the sentences, by input: the source mask and the cross-attention states."""
    source, mask = pad_sources(sources, pad)
    states = run(encoder, {tensor_names.SOURCE: source, tensor_names.SOURCE_MASK: mask})
    cross = [output.name for output in encoder.get_outputs()]
    return {tensor_names.SOURCE_MASK: mask, **dict(zip(cross, states, strict=True))}


def encode_batch(
    encoder: "InferenceSession", sources: list[list[int]], *, pad: int, pool: ArrayPool
) -> tuple[NDArray[np.bool_], Scores]:
    """Return the source mask (B, S), and the cross-attention states of all layers as one array (N, B, H, S, d)."""
    lengths = np.array([len(source) for source in sources])
    outputs = encoder.get_outputs()
    _, heads, _, width = outputs[0].shape
    shape = (len(outputs), len(sources), heads, int(lengths.max()), width)
    states: Scores = pool.take(shape, np.float32)  # (N, B, H, S, d)
    for part in _parts(lengths):
        encoded = encode(encoder, [sources[index] for index in part], pad=pad)
        longest = int(lengths[part].max())
        for state, output in enumerate(outputs):
            _check_shape(output.name, encoded[output.name].shape, (len(part), heads, longest, width))
            states[state, part, :, :longest] = encoded[output.name]
        states[:, part, :, longest:] = 0  # the array is reused, and its old content could be infinite
        del encoded  # else it stays in memory while the next part is encoded
    return np.arange(lengths.max()) < lengths[:, None], states


def _check_shape(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Check an output, because what a graph declares need not be what it computes."""
    if shape != expected:
        raise BundleError(f"the encoder returned {name} with the shape {shape} instead of {expected}")


def _parts(lengths: Ids) -> list[Ids]:
    """Return the indices of sentences of similar length, in parts with few tokens including padding."""
    parts: list[list[int]] = [[]]
    for index in np.argsort(lengths, kind="stable").tolist():  # the longest of a part comes last
        if parts[-1] and (len(parts[-1]) + 1) * lengths[index] > TOKENS_AT_ONCE:
            parts.append([])
        parts[-1].append(index)
    return [np.array(part) for part in parts]


def pad_sources(sources: list[list[int]], pad: int) -> tuple[Ids, NDArray[np.bool_]]:
    """Return sentences of different lengths as one array, and a mask that is true for tokens and false for padding."""
    lengths = np.array([len(source) for source in sources])
    mask = np.arange(lengths.max()) < lengths[:, None]  # (B, S)
    padded = np.full(mask.shape, pad, np.int64)
    padded[mask] = np.concatenate([np.asarray(source, np.int64) for source in sources])
    return padded, mask
