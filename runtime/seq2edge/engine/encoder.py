"""Run the encoder of a bundle.

A large batch is encoded in several parts of similar length, so that little is spent on padding and the activations stay
in the CPU's caches.

Sources are padded to a multiple of ``BLOCK`` tokens, so that a sentence gets the same result to the last bit in any
batch. Padding adds exact zeros to the sums of the attention (over the source, in the softmax and in its product with
the values), and zeros change nothing as long as the terms before them are added in the same order. onnxruntime adds
four terms at a time, and then those that are left, in another order: none may be left. A sentence of one token would
even get other kernels than longer ones.
"""

from dataclasses import dataclass
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
BLOCK = 4


@dataclass(frozen=True)
class Padding:
    """How the sources of a batch get the same length: the token to append, and the model's maximum length."""

    token: int
    max_length: int

    def length(self, longest: int) -> int:
        """Return the length of a batch whose longest source has ``longest`` tokens."""
        return max(longest, min(-(-longest // BLOCK) * BLOCK, self.max_length))

    def pad(self, sources: list[list[int]]) -> tuple[Ids, NDArray[np.bool_]]:
        return pad_sources(sources, self.token, length=self.length(max(map(len, sources))))


def encode(
    encoder: "InferenceSession", source: Ids, mask: NDArray[np.bool_], *, releasing: bool = False
) -> dict[str, NDArray[Any]]:  # (B, S) each
    """Return what a decoder reads of the sentences, by input: the source mask and the cross-attention states."""
    states = run(encoder, {tensor_names.SOURCE: source, tensor_names.SOURCE_MASK: mask}, releasing=releasing)
    cross = [output.name for output in encoder.get_outputs()]
    return {tensor_names.SOURCE_MASK: mask, **dict(zip(cross, states, strict=True))}


def encode_batch(
    encoder: "InferenceSession", sources: list[list[int]], *, padding: Padding, pool: ArrayPool
) -> tuple[NDArray[np.bool_], Scores]:
    """Return the source mask (B, S), and the cross-attention states of all layers as one array (N, B, H, S, d)."""
    lengths = np.array([len(source) for source in sources])
    outputs = encoder.get_outputs()
    _, heads, _, width = outputs[0].shape
    length = padding.length(int(lengths.max()))
    shape = (len(outputs), len(sources), heads, length, width)
    states: Scores = pool.take(shape, np.float32)  # (N, B, H, S, d)
    mask = np.arange(length) < lengths[:, None]
    if len(sources) * length <= TOKENS_AT_ONCE:
        encoded = encode(encoder, *padding.pad(sources), releasing=len(sources) > 1)
        for state, output in zip(states, outputs, strict=True):
            _check_shape(output.name, encoded[output.name].shape, state.shape)
            state[:] = encoded[output.name]
        return mask, states
    for part in _parts(lengths):
        encoded = encode(encoder, *padding.pad([sources[index] for index in part]), releasing=True)
        longest = padding.length(int(lengths[part].max()))
        for state, output in enumerate(outputs):
            _check_shape(output.name, encoded[output.name].shape, (len(part), heads, longest, width))
            states[state, part, :, :longest] = encoded[output.name]
        states[:, part, :, longest:] = 0  # the array is reused, and its old content could be infinite
        del encoded  # else it stays in memory while the next part is encoded
    return mask, states


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


def pad_sources(
    sources: list[list[int]], pad: int, *, length: int | None = None
) -> tuple[Ids, NDArray[np.bool_]]:  # (B, S) each
    """Return sentences of different lengths as one array, and a mask that is true for tokens and false for padding."""
    lengths = np.array([len(source) for source in sources])
    mask = np.arange(length or lengths.max()) < lengths[:, None]
    padded = np.full(mask.shape, pad, np.int64)
    padded[mask] = np.concatenate([np.asarray(source, np.int64) for source in sources])
    return padded, mask
