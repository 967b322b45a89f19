"""The two graphs of a bundle as a step for the search; needs numpy and onnxruntime."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seq2edge import names
from seq2edge.architecture import Architecture
from seq2edge.bundle import Bundle
from seq2edge.search import Ids, Scores
from seq2edge.sessions import open_session

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class Engine:
    """Encoder and decoder of one bundle, ready to run."""

    def __init__(self, bundle: Bundle, *, threads: int) -> None:
        self.shape = bundle.manifest.architecture
        self.pad = bundle.manifest.tokens.pad
        self.encoder = open_session(bundle.folder / names.ENCODER, threads=threads)
        self.decoder = open_session(bundle.folder / names.DECODER, threads=threads)

    def start(self, sources: list[list[int]]) -> "OnnxStep":
        """Encode some sentences and give the step that decodes them."""
        source, mask = pad_sources(sources, self.pad)
        cross = self.encoder.run(None, {names.SOURCE: source, names.SOURCE_MASK: mask})
        return OnnxStep(self.decoder, self.shape, mask, cross)


class OnnxStep:
    """Decode one step; keeps the cache, and drops the sentences that the search has dropped."""

    def __init__(
        self, decoder: "InferenceSession", shape: Architecture, mask: NDArray[np.bool_], cross: list[Scores]
    ) -> None:
        self.decoder = decoder
        self.layers = shape.decoder_layers
        self.mask, self.cross = mask, cross
        nothing = np.zeros((len(mask), shape.heads, 0, shape.head_width), np.float32)
        self.past: list[Scores] = [nothing] * (2 * self.layers)
        self.rows_per_sentence = 1

    def __call__(self, tokens: Ids, rows: Ids) -> Scores:  # (B, K, T), (B, K)
        self._keep_sentences(rows[:, 0] // self.rows_per_sentence)
        feed = {names.TARGET: tokens, names.ROWS: rows, names.SOURCE_MASK: self.mask}
        feed.update(zip(names.cross(self.layers), self.cross, strict=True))
        feed.update(zip(names.past(self.layers), self.past, strict=True))
        logits, *self.past = self.decoder.run(None, feed)
        self.rows_per_sentence = rows.shape[1]
        scores: Scores = logits  # (B, K, V)
        return scores

    def _keep_sentences(self, kept: Ids) -> None:
        if len(kept) < len(self.mask):
            self.mask = self.mask[kept]
            self.cross = [tensor[kept] for tensor in self.cross]


def pad_sources(sources: list[list[int]], pad: int) -> tuple[Ids, NDArray[np.bool_]]:
    """Sentences of different lengths as one array, and a mask that is true where there is a token."""
    lengths = np.array([len(source) for source in sources])
    mask = np.arange(lengths.max()) < lengths[:, None]  # (B, S)
    padded = np.full(mask.shape, pad, np.int64)
    padded[mask] = np.concatenate([np.asarray(source, np.int64) for source in sources])
    return padded, mask
