"""Greedy search over any decoder that can take one step; needs numpy."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Scores = NDArray[np.float32]


class Step(Protocol):
    """One decoder call. It owns the cache; the search never sees it.

    ``rows`` says which row of the call before each new row continues; in the first call, which sentence it belongs to.
    """

    def __call__(self, tokens: Ids, rows: Ids) -> Scores: ...  # (R, T), (R,) -> (R, V)


def greedy(step: Step, start: Ids, *, eos: int, max_new_tokens: int) -> list[list[int]]:
    """Take the likeliest token at each step until every row has ended; rows that ended leave the batch."""
    results: list[list[int]] = [[] for _ in start]
    living = np.arange(len(start))  # which sentence each row is
    tokens, rows = start[:, None], living
    for _ in range(max_new_tokens):
        chosen = step(tokens, rows).argmax(axis=1)  # (R,)
        for sentence, token in zip(living, chosen, strict=True):
            results[sentence].append(int(token))
        rows = np.flatnonzero(chosen != eos)
        if not len(rows):
            break
        tokens, living = chosen[rows, None], living[rows]
    return results
