"""The greatest few of many scores, equal ones in order of their place; needs numpy."""

import numpy as np

from seq2edge.search.step import Ids, Scores

GROUPS = 256  # so many peaks are sorted, which is more than most ask for
MEMBERS = 16  # of a small group
MANY = 1 << 16  # numbers; to look at fewer of them again is faster than to look for small groups
LOWEST = np.finfo(np.float32).min


def top_k(scores: Scores, k: int) -> Ids:  # (R, V) -> (R, k)
    """The places of the k greatest scores of each row, greatest first."""
    return greatest(scores, k)[0]


def greatest(scores: Scores, k: int) -> tuple[Ids, Scores]:  # (R, V) -> (R, k) each
    """The same places, and the scores there.

    Split a row into groups in any way: the k-th greatest of the groups' peaks is not above the k-th greatest score,
    so what lies below it can be dropped unsorted, and with it every group whose peak lies below it. So all scores are
    looked at only once, for the peaks of many small groups.
    """
    peaks = _peaks(scores, GROUPS * (scores.shape[1] // (GROUPS * MEMBERS)), k) if scores.size > MANY else scores
    bound = np.sort(_peaks(peaks, GROUPS, k), axis=1)[:, -k, None]  # (R, 1)
    rows, places = _at_least(bound, peaks, k)  # of peaks
    if peaks is not scores:
        rows, places = _members(scores, rows, places, bound, peaks.shape[1])
    found = scores[rows, places]  # k or a few more for each row
    order = np.lexsort((places, -found, rows))
    first = rows.searchsorted(np.arange(len(scores)))  # where each row starts in that order
    best = order[first[:, None] + np.arange(k)]  # (R, k)
    return places[best], found[best]


def _peaks(scores: Scores, groups: int, k: int) -> Scores:  # (R, V) -> (R, G)
    """The peak of each group of scores, or the scores themselves if they are few; place p is in group p % G."""
    rows, size = scores.shape
    if groups < max(k, 1) or size < 2 * groups:
        return scores
    whole = size - size % groups
    peaks: Scores = np.maximum.reduce(scores[:, :whole].reshape(rows, -1, groups), axis=1)
    if whole < size:
        np.maximum(peaks[:, : size - whole], scores[:, whole:], out=peaks[:, : size - whole])
    return peaks


def _at_least(bound: Scores, peaks: Scores, k: int) -> tuple[Ids, Ids]:  # (R, 1), (R, G) -> (n,) each
    """Rows and groups that may hold one of the k greatest.

    Where a row has too few groups of which something is allowed, the first forbidden places are among the greatest.
    """
    flags = peaks >= bound
    if bound.min() < LOWEST:
        flags = peaks >= np.maximum(bound, LOWEST)
        flags[:, :k] |= bound < LOWEST
    rows, groups = np.divmod(flags.ravel().nonzero()[0], peaks.shape[1])  # faster than nonzero of two axes
    return rows, groups


def _members(scores: Scores, rows: Ids, groups: Ids, bound: Scores, count: int) -> tuple[Ids, Ids]:
    """Rows and places of what is not below the bound in some of ``count`` groups."""
    size = scores.shape[1]
    places = groups[:, None] + np.arange(0, size, count)  # (n, M)
    found = scores.take(places + (rows * size)[:, None], mode="clip")  # the last place may lie behind the row
    flags = (found >= bound[rows]) & (places < size)
    return np.repeat(rows, flags.sum(axis=1)), places[flags]
