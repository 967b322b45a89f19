"""Notice an output that says the same again and again, as a model does that has lost its way; needs numpy."""

from collections.abc import Iterator, Sequence

import numpy as np

LONGEST_PERIOD = 20  # tokens
FEWEST_TIMES = 4
SHORTEST_RUN = 8  # tokens; people, too, say a word four times


def repeats(tokens: Sequence[int], source: Sequence[int] = ()) -> bool:
    """Whether some tokens stand at least four times in a row, eight in all, and more often than any in the source.

    A source that repeats itself is repeated by its translation. There, times are compared and not tokens: the two
    languages may need more or fewer tokens for the same word.
    """
    most = max((times for times, run in _runs(tokens) if times >= FEWEST_TIMES and run >= SHORTEST_RUN), default=0)
    return most > 0 and most > max((times for times, _ in _runs(source)), default=0)


def _runs(tokens: Sequence[int]) -> Iterator[tuple[int, int]]:
    """For each period, how many times it stands in the longest run that has it, and how many tokens that run has."""
    row = np.asarray(tokens)
    for period in range(1, min(LONGEST_PERIOD, len(row) // FEWEST_TIMES) + 1):
        run = _longest(row[period:] == row[:-period]) + period
        yield run // period, run


def _longest(same: np.ndarray) -> int:
    """The length of the longest stretch of true values."""
    breaks = np.flatnonzero(~same)
    return int(np.diff(breaks, prepend=-1, append=len(same)).max()) - 1
