"""The encoder and the decoder of a bundle as an engine; needs numpy and onnxruntime.

The graphs say themselves what the cache looks like: the encoder's outputs are the cross states, and the decoder's
inputs that begin with ``past`` are the cache, in the order of its outputs behind the logits.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge import names
from seq2edge.bundle import Bundle
from seq2edge.search import Ids, Scores
from seq2edge.sessions import Device, open_session, run

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, NodeArg

TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
}


class OnnxEngine:
    """Encoder and decoder of one bundle, ready to run."""

    def __init__(self, bundle: Bundle, *, threads: int, device: Device = "cpu") -> None:
        self.pad = bundle.manifest.tokens.pad
        self.threads, self.device = threads, device
        self.encoder = open_session(bundle.folder / names.ENCODER, threads=threads, device=device)
        self.decoder = open_session(bundle.folder / names.DECODER, threads=threads, device=device)

    @property
    def cross_axes(self) -> dict[str, list[str | int]]:
        """The axes of what the encoder hands over; a name where the size changes from call to call."""
        return {output.name: output.shape for output in self.encoder.get_outputs()}

    def start(self, sources: list[list[int]]) -> "OnnxStep":
        """Encode some sentences and give the step that decodes them."""
        return OnnxStep(self.decoder, encode(self.encoder, sources, pad=self.pad))


class OnnxStep:
    """Decode one step; keeps the cache, and drops the sentences that the search has dropped."""

    def __init__(self, decoder: "InferenceSession", source: dict[str, NDArray[Any]]) -> None:
        self.decoder = decoder
        self.source = source  # one row a sentence
        self.past = empty_past(decoder, rows=len(source[names.SOURCE_MASK]))
        self.rows_per_sentence = 1

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]:
        """What the encoder has handed over."""
        return {name: states for name, states in self.source.items() if name != names.SOURCE_MASK}

    def __call__(self, tokens: Ids, rows: Ids) -> Scores:  # (B, K, T), (B, K)
        self._keep_sentences(rows[:, 0] // self.rows_per_sentence)
        logits, *present = run(self.decoder, {names.TARGET: tokens, names.ROWS: rows, **self.source, **self.past})
        self.past = dict(zip(self.past, present, strict=True))
        self.rows_per_sentence = rows.shape[1]
        scores: Scores = logits  # (B, K, V)
        return scores

    def _keep_sentences(self, kept: Ids) -> None:
        if len(kept) < len(self.source[names.SOURCE_MASK]):
            self.source = {name: states[kept] for name, states in self.source.items()}


def encode(encoder: "InferenceSession", sources: list[list[int]], *, pad: int) -> dict[str, NDArray[Any]]:
    """What a decoder graph reads of the sentences: the mask of their tokens and the cross states, by input."""
    source, mask = pad_sources(sources, pad)
    states = run(encoder, {names.SOURCE: source, names.SOURCE_MASK: mask})
    cross = [output.name for output in encoder.get_outputs()]
    return {names.SOURCE_MASK: mask, **dict(zip(cross, states, strict=True))}


def empty_past(decoder: "InferenceSession", *, rows: int) -> dict[str, Scores]:
    """A cache of no tokens, by input."""
    inputs = [entry for entry in decoder.get_inputs() if names.is_past(entry.name)]
    return {entry.name: _empty(entry, rows=rows) for entry in inputs}


def pad_sources(sources: list[list[int]], pad: int) -> tuple[Ids, NDArray[np.bool_]]:
    """Sentences of different lengths as one array, and a mask that is true where there is a token."""
    lengths = np.array([len(source) for source in sources])
    mask = np.arange(lengths.max()) < lengths[:, None]  # (B, S)
    padded = np.full(mask.shape, pad, np.int64)
    padded[mask] = np.concatenate([np.asarray(source, np.int64) for source in sources])
    return padded, mask


def _empty(past: "NodeArg", *, rows: int) -> Scores:
    sizes = {names.PAST_ROWS: rows, names.PAST_LENGTH: 0}
    shape = [sizes[size] if isinstance(size, str) else size for size in past.shape]
    return np.zeros(shape, TYPES[past.type])
