"""Learn from sentence pairs which target tokens a source token may be translated to: IBM model 1.

Each target token of a pair is the translation of one of its source tokens. Which one is unknown, so each gets a share,
in proportion to how likely the model finds it; the sums of the shares over all pairs are the model of the next round.

A link is a source token and a target token of one sentence pair; a link type is all links of the same two tokens.
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
MAX_LINKS = 60_000_000  # about 12 bytes of memory each; later pairs are ignored
PAIRS_PER_GROUP = 5_000


@dataclass(frozen=True, kw_only=True)
class ShortlistSizes:
    """Sizes of the vocabularies and of the lists."""

    source_tokens: int
    vocabulary: int
    best: int = 50  # target tokens for each source token
    frequent: int = 100  # target tokens for every sentence


@dataclass(frozen=True)
class Links:
    """The links of some pairs; those of one target token are adjacent."""

    types: NDArray[np.int32]  # (N,)
    starts: Ids  # (T,): the first link of each target token
    lengths: Ids  # (T,)


def learn_shortlist(
    pairs: Iterable[Pair], sizes: ShortlistSizes, *, always: Sequence[int], shared: bool
) -> tuple[Shortlist, int]:
    """Return the best target tokens of each source token, and the number of pairs they were learned from.

    ``always`` are target tokens for every sentence besides the frequent ones. With a ``shared`` vocabulary, a token may
    also be translated to itself, as in names.
    """
    groups, keys, uses, count = _collect(pairs, sizes)
    probabilities = _estimate(groups, keys // sizes.vocabulary, sizes)
    lists = _best(keys, probabilities, sizes)
    if shared:
        lists = [np.append(one, token) for token, one in enumerate(lists)]
    frequent = np.argsort(-uses, kind="stable")[: sizes.frequent]
    return shortlist_of(lists, np.concatenate([frequent[uses[frequent] > 0], always]), sizes.vocabulary), count


def _collect(pairs: Iterable[Pair], sizes: ShortlistSizes) -> tuple[list[Links], Ids, Ids, int]:
    """Return the links, the sorted keys of the link types, the count of each target token, and the number of pairs.

    The key of a link type is  source token * vocabulary + target token.
    """
    keys: list[Ids] = []
    spans: list[tuple[Ids, Ids]] = []
    uses, count, total = np.zeros(sizes.vocabulary, np.int64), 0, 0
    for group in _groups(pairs):
        blocks = [np.add.outer(np.asarray(target), np.asarray(source) * sizes.vocabulary) for source, target in group]
        keys.append(np.concatenate([block.ravel() for block in blocks]))
        lengths = np.repeat([block.shape[1] for block in blocks], [block.shape[0] for block in blocks])
        spans.append((np.cumsum(lengths) - lengths, lengths))
        uses += np.bincount(np.concatenate([target for _, target in group]), minlength=sizes.vocabulary)
        count, total = count + len(group), total + len(keys[-1])
        if total > MAX_LINKS:
            break
    if not count:
        raise DataError("there is no sentence pair to learn from")
    all_keys = np.unique(np.concatenate([np.unique(some) for some in keys]))
    links = []
    while keys:  # popped one by one to release their memory
        types = np.searchsorted(all_keys, keys.pop()).astype(np.int32)
        links.append(Links(types, *spans.pop()))
    return links, all_keys, uses, count


def _groups(pairs: Iterable[Pair]) -> Iterable[list[Pair]]:
    group: list[Pair] = []
    for pair in pairs:
        group.append(pair)
        if len(group) == PAIRS_PER_GROUP:
            yield group
            group = []
    if group:
        yield group


def _estimate(groups: list[Links], sources: Ids, sizes: ShortlistSizes) -> Doubles:
    """Return for each link type the probability of its target token given its source token."""
    probabilities = np.ones(len(sources))
    for _ in range(ROUNDS):
        sums = np.zeros(len(sources))
        for links in groups:
            shares = probabilities[links.types]  # (N,)
            shares /= np.repeat(np.add.reduceat(shares, links.starts), links.lengths)
            sums += np.bincount(links.types, shares, minlength=len(sources))
        totals = np.bincount(sources, sums, minlength=sizes.source_tokens)
        probabilities = sums / totals[sources]
    return probabilities


def _best(keys: Ids, probabilities: Doubles, sizes: ShortlistSizes) -> list[Ids]:
    """Return the most likely target tokens of each source token."""
    sources, targets = np.divmod(keys, sizes.vocabulary)
    order = np.lexsort((-probabilities, sources))
    ends = np.searchsorted(sources, np.arange(sizes.source_tokens + 1))
    return [targets[order[start : min(end, start + sizes.best)]] for start, end in pairwise(ends)]
