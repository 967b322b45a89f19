"""The greatest few of many scores, equal ones in order of their place."""

import numpy as np

from seq2edge.search.interface import Ids, Scores

GROUPS = 256  # so many peaks are sorted, which is more than most ask for
MEMBERS = 16  # of a small group
MANY = 1 << 16  # numbers; to look at fewer of them again is faster than to look for small groups
LOWEST = np.finfo(np.float32).min


def top_k(scores: Scores, k: int) -> tuple[Ids, Scores]:  # (R, V) -> (R, k) each
    """The places of the k greatest scores of each row, greatest first, and the scores there.

    Split a row into groups in any way: the k-th greatest of the groups' peaks is not above the k-th greatest score,
    so what lies below it can be dropped unsorted, and with it every group whose peak lies below it. So of many scores
    all are looked at only once, for the peaks of small groups. The scores must be numbers.
    """
    peaks = _peaks(scores, GROUPS * (scores.shape[1] // (GROUPS * MEMBERS)), k)  # (R, G)
    bound = np.sort(_peaks(peaks, GROUPS, k), axis=1)[:, -k, None]  # (R, 1)
    if scores.size < MANY:
        found = _at_least(bound, scores, k)  # (n,): counted through all rows
    else:
        groups = _at_least(bound, _with_rest(peaks, scores), k)
        found = _members(groups, peaks.shape[1], scores, bound)
    values, (rows, places) = scores.take(found), np.divmod(found, scores.shape[1])  # k or a few more for each row
    order = np.lexsort((-values, rows))  # stable
    first = rows.searchsorted(np.arange(len(scores)))  # where each row starts in that order
    best = order.take(first[:, None] + np.arange(k))  # (R, k)
    return places.take(best), values.take(best)


def _peaks(scores: Scores, groups: int, k: int) -> Scores:  # (R, V) -> (R, G)
    """The peak of each group of scores, or the scores themselves if they are too few for groups.

    Place p is in group p % G; the last places, which are not enough for all groups, are left out.
    """
    rows, size = scores.shape
    if groups < max(k, 1) or size < 2 * groups:
        return scores
    peaks: Scores = np.maximum.reduce(scores[:, : size - size % groups].reshape(rows, -1, groups), axis=1)
    return peaks


def _with_rest(peaks: Scores, scores: Scores) -> Scores:  # (R, G), (R, V)
    """The peaks after a look at the last places too."""
    rest = scores.shape[1] % peaks.shape[1]
    if rest:
        np.maximum(peaks[:, :rest], scores[:, -rest:], out=peaks[:, :rest])
    return peaks


def _at_least(bound: Scores, peaks: Scores, k: int) -> Ids:  # (R, 1), (R, G) -> (n,)
    """The groups that may hold one of the k greatest.

    Where a row has too few groups of which something is allowed, the first forbidden places are among the greatest.
    """
    flags = peaks >= bound
    if bound.min() < LOWEST:
        flags = peaks >= np.maximum(bound, LOWEST)
        flags[:, :k] |= bound < LOWEST
    return flags.ravel().nonzero()[0]


def _members(groups: Ids, count: int, scores: Scores, bound: Scores) -> Ids:  # (n,) -> (m,)
    """What is not below the bound in these of ``count`` groups a row, in order."""
    size = scores.shape[1]
    rows, first = np.divmod(groups, count)
    places = first[:, None] + np.arange(0, size, count)  # (n, M)
    members = places + (rows * size)[:, None]
    values = scores.take(members, mode="clip")  # the last place may lie behind the row
    found: Ids = members[(values >= bound[rows]) & (places < size)]
    found.sort()
    return found
