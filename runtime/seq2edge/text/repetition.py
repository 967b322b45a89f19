"""Detect outputs that are stuck in a loop, a common failure of translation models."""

from collections.abc import Sequence

import numpy as np

MAX_PERIOD = 20  # tokens
MIN_TIMES = 4
MIN_RUN = 8  # tokens; a word repeated four times is still ordinary language


def repeats(tokens: Sequence[int], source: Sequence[int] = ()) -> bool:
    """Return whether tokens are repeated four times or more in a row, eight tokens in all, and more than in the source.

    A repetition in the source is translated as one. The number of times is compared, not that of tokens, as the two
    languages may need more or fewer tokens for the same word.
    """
    if (
        len(tokens) - len(set(tokens)) < MIN_RUN * (MIN_TIMES - 1) // MIN_TIMES
    ):  # most outputs: a run has this many copies
        return False
    times, runs = _repetitions(tokens)
    most = int(times[(times >= MIN_TIMES) & (runs >= MIN_RUN)].max(initial=0))
    return most > 0 and most > int(_repetitions(source)[0].max(initial=0))


def _repetitions(tokens: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return for each period how often it occurs in its longest run, and the length of this run in tokens."""
    row = np.asarray(tokens)
    positions = np.arange(len(row))
    periods = np.arange(1, min(MAX_PERIOD, len(row) // MIN_TIMES) + 1)
    shifted = positions + periods[:, None]  # [periods, tokens]
    same = (shifted < len(row)) & (row[shifted % max(1, len(row))] == row)
    last_break = np.maximum.accumulate(np.where(same, -1, positions), axis=1)
    runs = (positions - last_break).max(axis=1, initial=0) + periods
    return runs // periods, runs
