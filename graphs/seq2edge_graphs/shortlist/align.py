"""Learn from sentence pairs which words a source token may become: IBM model 1.

A target token comes from one of the source tokens beside it. Which one is not known, so each gets its share, by how
likely the model finds it now; the shares added up over all pairs are the model of the next round.

A combination is a source token and a target token of one pair; a kind of combination is all those of the same two.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seq2edge.engine.shortlist import Shortlist, shortlist_of
from seq2edge.errors import DataError
from seq2edge.search import Ids

Pair = tuple[Sequence[int], Sequence[int]]  # source and target ids
Doubles = NDArray[np.float64]

ROUNDS = 5
MOST_COMBINATIONS = 60_000_000  # some 12 bytes of memory each; what comes behind is not learned from
PAIRS_AT_ONCE = 5_000


@dataclass(frozen=True, kw_only=True)
class ShortlistSizes:
    """Of vocabularies and of lists."""

    source_tokens: int
    vocabulary: int
    best: int = 50  # words for each source token
    frequent: int = 100  # words that every sentence may have


@dataclass(frozen=True)
class Combinations:
    """Those of some pairs; the ones with the same target token of a pair are side by side."""

    kinds: NDArray[np.int32]  # (N,)
    starts: Ids  # (T,): where those of each target token begin
    lengths: Ids  # (T,)


def learn_shortlist(
    pairs: Iterable[Pair], sizes: ShortlistSizes, *, always: Sequence[int], shared: bool
) -> tuple[Shortlist, int]:
    """The best words of each source token, and from how many pairs they were learned.

    ``always`` are words that every sentence may have besides the frequent ones; with one vocabulary for both sides, a
    token may become itself, as names do.
    """
    parts, keys, uses, count = _collected(pairs, sizes)
    chances = _estimated(parts, keys // sizes.vocabulary, sizes)
    lists = _best(keys, chances, sizes)
    if shared:
        lists = [np.append(one, token) for token, one in enumerate(lists)]
    frequent = np.argsort(-uses, kind="stable")[: sizes.frequent]
    return shortlist_of(lists, np.concatenate([frequent[uses[frequent] > 0], always]), sizes.vocabulary), count


def _collected(pairs: Iterable[Pair], sizes: ShortlistSizes) -> tuple[list[Combinations], Ids, Ids, int]:
    """The combinations, the key of each kind in order, how often each target token is used, how many pairs there are.

    The key of a kind is  source token * vocabulary + target token.
    """
    keys: list[Ids] = []
    groups: list[tuple[Ids, Ids]] = []
    uses, count, total = np.zeros(sizes.vocabulary, np.int64), 0, 0
    for some in _in_groups(pairs):
        blocks = [np.add.outer(np.asarray(target), np.asarray(source) * sizes.vocabulary) for source, target in some]
        keys.append(np.concatenate([block.ravel() for block in blocks]))
        lengths = np.repeat([block.shape[1] for block in blocks], [block.shape[0] for block in blocks])
        groups.append((np.cumsum(lengths) - lengths, lengths))
        uses += np.bincount(np.concatenate([target for _, target in some]), minlength=sizes.vocabulary)
        count, total = count + len(some), total + len(keys[-1])
        if total > MOST_COMBINATIONS:
            break
    if not count:
        raise DataError("there is no sentence pair to learn from")
    kinds = np.unique(np.concatenate([np.unique(part) for part in keys]))
    parts = []
    while keys:  # each is let go when its kinds are known
        found = np.searchsorted(kinds, keys.pop()).astype(np.int32)
        parts.append(Combinations(found, *groups.pop()))
    return parts, kinds, uses, count


def _in_groups(pairs: Iterable[Pair]) -> Iterable[list[Pair]]:
    group: list[Pair] = []
    for pair in pairs:
        group.append(pair)
        if len(group) == PAIRS_AT_ONCE:
            yield group
            group = []
    if group:
        yield group


def _estimated(parts: list[Combinations], sources: Ids, sizes: ShortlistSizes) -> Doubles:
    """How likely each kind is: that its source token becomes its target token."""
    chances = np.ones(len(sources))
    for _ in range(ROUNDS):
        shares = np.zeros(len(sources))
        for part in parts:
            here = chances[part.kinds]  # (N,)
            here /= np.repeat(np.add.reduceat(here, part.starts), part.lengths)
            shares += np.bincount(part.kinds, here, minlength=len(sources))
        totals = np.bincount(sources, shares, minlength=sizes.source_tokens)
        chances = shares / totals[sources]
    return chances


def _best(keys: Ids, chances: Doubles, sizes: ShortlistSizes) -> list[Ids]:
    """The likeliest few words of each source token."""
    sources, words = np.divmod(keys, sizes.vocabulary)
    order = np.lexsort((-chances, sources))
    ends = np.searchsorted(sources, np.arange(sizes.source_tokens + 1))
    return [words[order[start : min(end, start + sizes.best)]] for start, end in pairwise(ends)]
