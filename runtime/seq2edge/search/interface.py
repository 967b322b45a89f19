"""What the search asks of a decoder: one call that continues rows of the call before."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
Flags = NDArray[np.bool_]


class Step(Protocol):
    """One decoder call. It owns the cache; the search never sees it.

    There are B sentences with K rows each. ``rows[b, k]`` is the row of the call before, counted through all its
    sentences, that this row continues; in the first call it is the number of the sentence. The K rows of a sentence
    always continue rows of one sentence, so ``rows[:, 0] // K_before`` tells which sentences of the call before are
    left; none comes back, and their order stays. K is 1 in the first call and the same in all later ones.

    ``tokens`` holds the whole prefix in the first call (T >= 1) and one new token in every later call (T = 1).

    The scores are the search's own until the next call: it may overwrite them, and so may the next call.
    """

    def __call__(self, tokens: Ids, rows: Ids) -> Scores: ...  # (B, K, T), (B, K) -> (B, K, V) last logits


class SummingStep(Protocol):
    """A step whose decoder has added up the exponentials of its logits, which saves the search a pass over them."""

    @property
    def log_totals(self) -> Scores: ...  # (B * K,): log(sum(exp(logits - largest))) of each row of the last call


class ChoosingStep(Protocol):
    """A step that can say itself which tokens are best: its scores are on a device, and only these leave it."""

    @property
    def vocabulary(self) -> int: ...

    def best(self, tokens: Ids, rows: Ids, count: int) -> tuple[Ids, Scores]:  # (B, K, T), (B, K) -> (B, K, count) each
        """The best next tokens of each row and their log-probabilities, best first; of equal ones the lowest first."""
        ...


class Hook(Protocol):
    """A caller's own look at the scores, or change of them: which sentence each row is, its tokens, prefix included."""

    def __call__(self, sentences: Ids, tokens: Ids, scores: Scores) -> Scores: ...  # (R,), (R, T), (R, V) -> (R, V)
