"""Select the k largest scores of each row, faster than numpy does."""

import numpy as np

from seq2edge.search.types import Ids, Scores

GROUPS = 256  # peaks to sort, more than most searches ask for
MEMBERS = 16  # scores in a small group
UNIT = 64  # numbers of groups that divide well
MANY = 1 << 16  # below so many scores, a second pass over all of them is faster than finding small groups
LOWEST = np.finfo(np.float32).min


def top_k(scores: Scores, k: int) -> tuple[Ids, Scores]:  # (R, V) -> (R, k) each
    """Return the columns and values of the k largest scores of each row, largest first; ties in order of the column.

    Split a row into groups in any way: the k-th largest of the groups' peaks is not above the k-th largest score, so
    everything below it can be dropped unsorted, and with it every group whose peak is below it. So all scores are read
    only once, for the peaks of small groups. None may be NaN.
    """
    peaks = _peaks(scores, GROUPS * (scores.shape[1] // (GROUPS * MEMBERS)), k)  # (R, G)
    bound = np.sort(_peaks(peaks, GROUPS, k), axis=1)[:, -k, None]  # (R, 1)
    if scores.size < MANY:
        found = _at_least(bound, scores, k)  # (n,): counted through all rows
    else:
        groups = _at_least(bound, _with_rest(peaks, scores), k)
        found = _members(groups, peaks.shape[1], scores, bound)
    values, (rows, columns) = scores.take(found), np.divmod(found, scores.shape[1])  # k or a few more for each row
    order = np.lexsort((-values, rows))  # stable
    first = rows.searchsorted(np.arange(len(scores)))  # where each row starts in that order
    best = order.take(first[:, None] + np.arange(k))  # (R, k)
    return columns.take(best), values.take(best)


def _peaks(scores: Scores, groups: int, k: int) -> Scores:  # (R, V) -> (R, G)
    """Return the peak of each group of scores, or the scores themselves if they are too few for groups.

    Column c is in group c % G; the last columns, too few for all groups, are left out.
    """
    rows, size = scores.shape
    if groups < max(k, 1) or size < 2 * groups:
        return scores
    peaks: Scores = np.maximum.reduce(scores[:, : size - size % groups].reshape(rows, -1, groups), axis=1)
    return peaks


def group_count(size: int) -> int:
    """Return the number of groups into which rows of this size are split, or 0 if they are too short for groups."""
    return UNIT * -(-size // (UNIT * MEMBERS)) if size >= UNIT * MEMBERS // 2 else 0


def group_peaks(scores: Scores, groups: int) -> Scores:  # (R, V) -> (R, G)
    """Return the peak of each group of scores; column c is in group c % G."""
    return _with_rest(_peaks(scores, groups, 1), scores)


def _with_rest(peaks: Scores, scores: Scores) -> Scores:  # (R, G), (R, V)
    """Include the last columns in the peaks."""
    rest = scores.shape[1] % peaks.shape[1]
    if rest:
        np.maximum(peaks[:, :rest], scores[:, -rest:], out=peaks[:, :rest])
    return peaks


def _at_least(bound: Scores, peaks: Scores, k: int) -> Ids:  # (R, 1), (R, G) -> (n,)
    """Return the groups that may hold one of the k largest scores.

    If fewer than k scores of a row are allowed, the first forbidden columns fill up.
    """
    flags = peaks >= bound
    if bound.min() < LOWEST:
        flags = peaks >= np.maximum(bound, LOWEST)
        flags[:, :k] |= bound < LOWEST
    return flags.ravel().nonzero()[0]


def _members(groups: Ids, count: int, scores: Scores, bound: Scores) -> Ids:  # (n,) -> (m,)
    """Return the scores of these groups, of ``count`` groups per row, that are not below the bound, in order."""
    size = scores.shape[1]
    rows, first = np.divmod(groups, count)
    columns = first[:, None] + np.arange(0, size, count)  # (n, M)
    members = columns + (rows * size)[:, None]
    values = scores.take(members, mode="clip")  # the last column may lie behind the row
    found: Ids = members[(values >= bound[rows]) & (columns < size)]
    found.sort()
    return found
