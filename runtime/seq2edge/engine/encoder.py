"""Run the encoder of a bundle.

A large batch is encoded in a few parts of like length: so little is spent on padding, and what the encoder computes on
the way stays in the caches of the CPU.
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
    """What a decoder graph reads of the sentences: the mask of their tokens and the cross states, by input."""
    source, mask = pad_sources(sources, pad)
    states = run(encoder, {tensor_names.SOURCE: source, tensor_names.SOURCE_MASK: mask})
    cross = [output.name for output in encoder.get_outputs()]
    return {tensor_names.SOURCE_MASK: mask, **dict(zip(cross, states, strict=True))}


def encode_batch(
    encoder: "InferenceSession", sources: list[list[int]], *, pad: int, blocks: ArrayPool
) -> tuple[NDArray[np.bool_], Scores]:
    """The mask (B, S), and the cross states of all layers in one array (N, B, H, S, d), in the encoder's order."""
    lengths = np.array([len(source) for source in sources])
    outputs = encoder.get_outputs()
    _, heads, _, width = outputs[0].shape
    shape = (len(outputs), len(sources), heads, int(lengths.max()), width)
    states: Scores = blocks.take(shape, np.float32)  # (N, B, H, S, d)
    for part in _parts(lengths):
        given = encode(encoder, [sources[place] for place in part], pad=pad)
        longest = int(lengths[part].max())
        for number, one in enumerate(outputs):
            _check_shape(one.name, given[one.name].shape, (len(part), heads, longest, width))
            states[number, part, :, :longest] = given[one.name]
        states[:, part, :, longest:] = 0  # whatever has been there must not be infinite
        del given  # else it is kept while the next part is encoded
    return np.arange(lengths.max()) < lengths[:, None], states


def _check_shape(name: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """What a graph says of its outputs need not be what they are."""
    if found != wanted:
        raise BundleError(f"the encoder gives {name} as {found} instead of {wanted}")


def _parts(lengths: Ids) -> list[Ids]:
    """The places of sentences of like length, so many that they have few tokens together, padding included."""
    parts: list[list[int]] = [[]]
    for place in np.argsort(lengths, kind="stable").tolist():  # the longest of a part comes last
        if parts[-1] and (len(parts[-1]) + 1) * lengths[place] > TOKENS_AT_ONCE:
            parts.append([])
        parts[-1].append(place)
    return [np.array(part) for part in parts]


def pad_sources(sources: list[list[int]], pad: int) -> tuple[Ids, NDArray[np.bool_]]:
    """Sentences of different lengths as one array, and a mask that is true where there is a token."""
    lengths = np.array([len(source) for source in sources])
    mask = np.arange(lengths.max()) < lengths[:, None]  # (B, S)
    padded = np.full(mask.shape, pad, np.int64)
    padded[mask] = np.concatenate([np.asarray(source, np.int64) for source in sources])
    return padded, mask
