"""Decode with a cache that grows: every call gives a new one; needs numpy and onnxruntime."""

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from seq2edge import names
from seq2edge.first_call import empty_past
from seq2edge.search import Ids, Scores
from seq2edge.sessions import run
from seq2edge.words import Words

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class GrowingStep:
    """Decode one step; keeps the cache, and drops the sentences that the search has dropped.

    The graph selects the rows of the cache that go on, and says itself what the cache looks like: its inputs that begin
    with ``past``, in the order of its outputs behind the logits.
    """

    def __init__(
        self, decoder: "InferenceSession", source: dict[str, NDArray[Any]], words: Words | None = None
    ) -> None:
        self.decoder = decoder
        self.source = source  # one row a sentence
        self.words = words
        self.past = empty_past(decoder, rows=len(source[names.SOURCE_MASK]))
        self.rows_per_sentence = 1

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]:
        """What the encoder has handed over."""
        return {name: states for name, states in self.source.items() if name != names.SOURCE_MASK}

    def __call__(self, tokens: Ids, rows: Ids) -> Scores:  # (B, K, T), (B, K)
        self._keep_sentences(rows[:, 0] // self.rows_per_sentence)
        words = {} if self.words is None else self.words.inputs(self.words.bias[:, None])  # (B, 1, U)
        feed = {names.TARGET: tokens, names.ROWS: rows, **self.source, **self.past, **words}
        logits, *present = run(self.decoder, feed)
        self.past = dict(zip(self.past, present, strict=True))
        self.rows_per_sentence = rows.shape[1]
        scores: Scores = logits  # (B, K, V)
        return scores

    def _keep_sentences(self, kept: Ids) -> None:
        if len(kept) < len(self.source[names.SOURCE_MASK]):
            self.source = {name: states[kept] for name, states in self.source.items()}
            self.words = self.words and self.words.only(kept)
