"""Notice an output that says the same again and again, as a model does that has lost its way."""

from collections.abc import Sequence

import numpy as np

LONGEST_PERIOD = 20  # tokens
FEWEST_TIMES = 4
SHORTEST_RUN = 8  # tokens; people, too, say a word four times


def repeats(tokens: Sequence[int], source: Sequence[int] = ()) -> bool:
    """Whether some tokens stand at least four times in a row, eight in all, and more often than any in the source.

    A source that repeats itself is repeated by its translation. There, times are compared and not tokens: the two
    languages may need more or fewer tokens for the same word.
    """
    times, runs = _repetitions(tokens)
    most = int(times[(times >= FEWEST_TIMES) & (runs >= SHORTEST_RUN)].max(initial=0))
    return most > 0 and most > int(_repetitions(source)[0].max(initial=0))


def _repetitions(tokens: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """For each period, how many times it stands in the longest run that has it, and how many tokens that run has."""
    row = np.asarray(tokens)
    here = np.arange(len(row))
    periods = np.arange(1, min(LONGEST_PERIOD, len(row) // FEWEST_TIMES) + 1)
    there = here + periods[:, None]  # [periods, tokens]
    same = (there < len(row)) & (row[there % max(1, len(row))] == row)
    last_break = np.maximum.accumulate(np.where(same, -1, here), axis=1)
    runs = (here - last_break).max(axis=1, initial=0) + periods
    return runs // periods, runs
