"""Decode among the words of a shortlist; needs numpy and onnxruntime.

The words of a batch are the union of what its sentences may say, and what a sentence may not say has a score of minus
infinity: so a sentence alone says what it says in a batch. Their rows of the output matrix are gathered once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge import names
from seq2edge.buffered_step import BufferedStep
from seq2edge.bundle import Bundle
from seq2edge.devices import Place
from seq2edge.errors import BundleError
from seq2edge.growing_step import GrowingStep
from seq2edge.search import Ids, Scores
from seq2edge.search.step import Flags
from seq2edge.sessions import open_session, run
from seq2edge.shortlist import Shortlist, read_shortlist
from seq2edge.words import Words

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

OpenStep = Callable[[Words], BufferedStep | GrowingStep]
NOBODY: Ids = np.empty(0, np.int64)


class WordChoice:
    """The shortlist of a bundle, and what gathers words for its decoder."""

    def __init__(self, table: Shortlist, gatherer: "InferenceSession") -> None:
        self.table, self.gatherer = table, gatherer

    def words(self, allowed: Flags, known: Ids) -> Words:  # (B, V)
        """All words that some sentence may say, and such as are only read."""
        some: Flags = np.logical_or.reduce(allowed, axis=0)  # (V,)
        some[known] = True
        ids = np.flatnonzero(some)  # (U,)
        outputs = [output.name for output in self.gatherer.get_outputs()]
        gathered = dict(zip(outputs, run(self.gatherer, {names.WORDS: ids}), strict=True))
        bias = gathered.pop(names.WORD_BIAS, np.float32(0))
        return Words(ids, gathered, np.where(allowed[:, ids], bias, np.float32(-np.inf)))


def open_words(bundle: Bundle, *, threads: int, place: Place) -> WordChoice:
    """The shortlist of a bundle, which must be one for its vocabulary."""
    table, shape = read_shortlist(bundle.folder / names.SHORTLIST), bundle.manifest.architecture
    if shape is None or table.vocabulary != shape.target_vocabulary:
        raise BundleError(
            f"{bundle.folder / names.SHORTLIST} is for {table.vocabulary} words, which is not what the model has; "
            "make the bundle again with  seq2edge shortlist"
        )
    return WordChoice(table, open_session(bundle.folder / names.WORDS_GRAPH, threads=threads, place=place))


class ShortStep:
    """Decode one step among some words; what other words there are has to be said before the first."""

    def __init__(self, choice: WordChoice, sources: list[list[int]], open_step: OpenStep) -> None:
        self.choice, self.sources, self.open_step = choice, sources, open_step
        self._opened: tuple[Ids, BufferedStep | GrowingStep] | None = None

    @property
    def vocabulary(self) -> int:
        return self.choice.table.vocabulary

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]:
        """What the encoder has handed over."""
        return self.among(NOBODY, NOBODY)[1].cross_states

    def among(self, allowed: Ids, known: Ids) -> tuple[Ids, BufferedStep | GrowingStep]:
        """The words of this batch (U,), and the step that gives their scores; the first call decides them."""
        if self._opened is None:
            flags = self.choice.table.allowed(self.sources)  # (B, V)
            flags[:, allowed] = True
            words = self.choice.words(flags, known)
            self._opened = words.ids, self.open_step(words)
        return self._opened

    def __call__(self, tokens: Ids, rows: Ids) -> Scores:  # (B, K, T), (B, K) -> (B, K, V)
        """The scores of all words, minus infinity where they are none of the sentence."""
        words, step = self.among(NOBODY, NOBODY)
        scores = np.full((*rows.shape, self.vocabulary), -np.inf, np.float32)
        scores[:, :, words] = step(tokens, rows)
        return scores
