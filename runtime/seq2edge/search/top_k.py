"""The greatest few of many scores, equal ones in order of their place; needs numpy."""

import numpy as np

from seq2edge.search.step import Ids, Scores

GROUPS = 256


def top_k(scores: Scores, k: int) -> Ids:  # (R, V) -> (R, k)
    """The places of the k greatest scores of each row, greatest first.

    Split a row into groups in any way: the k-th greatest of the groups' peaks is not above the k-th greatest score,
    so what lies below it can be dropped unsorted. Three to four times faster than argpartition at V = 32000.
    """
    bound = np.partition(_peaks(scores, k), -k, axis=1)[:, -k, None]  # (R, 1)
    rows, places = np.divmod(np.flatnonzero(scores >= bound), scores.shape[1])  # k or a few more for each row
    order = np.lexsort((-scores[rows, places], rows))  # stable
    first = np.searchsorted(rows, np.arange(len(scores)))  # where each row starts in that order
    chosen: Ids = places[order][first[:, None] + np.arange(k)]
    return chosen


def _peaks(scores: Scores, k: int) -> Scores:
    """The peak of each group of scores, or the scores themselves if they are few."""
    rows, size = scores.shape
    members = size // GROUPS
    if members < 2 or k > GROUPS:
        return scores
    peaks: Scores = scores[:, : members * GROUPS].reshape(rows, members, GROUPS).max(axis=1)
    return peaks
