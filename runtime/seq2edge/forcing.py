"""What an engine says when it is forced to say a given target, step by step; needs numpy.

The scorer does it in one pass; this works with any engine, also of a bundle that has no scorer.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from seq2edge.decoding import Engine
from seq2edge.search import Ids, Scores
from seq2edge.search.probability import chosen_log_probabilities


def forced_log_probabilities(
    engine: Engine, sources: list[list[int]], targets: Sequence[Sequence[int]], *, start: int
) -> list[Scores]:  # (T,) each
    """How likely each token of each target is when those before it are given; targets are without the start token."""
    found: list[list[np.float32]] = [[] for _ in targets]
    for place, (alive, logits) in enumerate(forced_logits(engine, sources, targets, start=start)):
        tokens = np.array([targets[row][place] for row in alive])
        for row, score in zip(alive, chosen_log_probabilities(logits, tokens), strict=True):
            found[row].append(score)
    return [np.array(scores, np.float32) for scores in found]


def forced_logits(
    engine: Engine, sources: list[list[int]], targets: Sequence[Sequence[int]], *, start: int
) -> Iterator[tuple[Ids, Scores]]:
    """At each step, the sentences whose target is not over and the logits of their next token (R, V)."""
    step = engine.start(sources)
    lengths = np.array([len(target) for target in targets])
    padded = np.zeros((len(targets), lengths.max()), np.int64)
    for row, target in enumerate(targets):
        padded[row, : len(target)] = target
    rows, tokens = np.arange(len(sources)), np.full(len(sources), start)
    for place in range(lengths.max()):
        logits = step(tokens[:, None, None], rows[:, None])[:, 0]  # (B, V)
        alive = np.flatnonzero(lengths > place)
        yield alive, logits[alive]
        tokens = padded[:, place]
