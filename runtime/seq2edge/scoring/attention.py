"""Where each target token looked in the source, and which words belong together."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from seq2edge.config.text import check_heads, parse_heads

Weights = NDArray[np.float32]
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Attention:
    """How much each target token looked at each source token, marks such as the end included."""

    source: tuple[str, ...]  # S tokens as they are spelt
    target: tuple[str, ...]  # T tokens
    blocks: tuple[Weights, ...] = field(compare=False, repr=False)  # (T, S) of each part of the text
    alignment: Pairs  # (source, target) counted from 0: where each token that is no mark looked most

    @property
    def weights(self) -> Weights:
        """(T, S), each row sums to 1. A split text has a block for each part, and no part looks at another.

        It is made when it is asked for: the blocks of a very long text take far less memory.
        """
        if len(self.blocks) == 1:
            return self.blocks[0]
        weights = np.zeros((len(self.target), len(self.source)), np.float32)
        row = column = 0
        for block in self.blocks:
            weights[row : row + block.shape[0], column : column + block.shape[1]] = block
            row, column = row + block.shape[0], column + block.shape[1]
        return weights

    @property
    def moses(self) -> str:
        """The alignment as Moses and its kin write it: ``0-0 1-2``."""
        return " ".join(f"{source}-{target}" for source, target in self.alignment)


def attention(
    weights: Weights, source: Sequence[str], target: Sequence[str], *, marks: tuple[set[int], set[int]]
) -> Attention:
    """Of one sentence: weights (T, S), its tokens as they are spelt, and the places of marks in source and target."""
    words = [place for place in range(len(source)) if place not in marks[0]]
    pairs: list[tuple[int, int]] = []
    if words:
        best = weights[:, words].argmax(axis=1)  # (T,)
        pairs = [(words[best[place]], place) for place in range(len(target)) if place not in marks[1]]
    return Attention(source=tuple(source), target=tuple(target), blocks=(weights,), alignment=tuple(sorted(pairs)))


def average(weights: Weights, heads: str) -> Weights:  # (L, H, T, S) -> (T, S)
    """The mean of the wanted heads, as ``TextOptions.attention`` names them."""
    check_heads(heads, layers=weights.shape[0], heads=weights.shape[1])
    chosen = [
        weights[layer - 1].mean(axis=0) if head is None else weights[layer - 1, head - 1]
        for layer, head in parse_heads(heads)
    ]
    mean: Weights = np.mean(chosen, axis=0) if chosen else weights.mean(axis=(0, 1))
    return mean


def joined(parts: Sequence[Attention]) -> Attention:
    """Of a text that was split."""
    pairs: list[tuple[int, int]] = []
    before = after = 0  # source and target tokens of the parts so far
    for part in parts:
        pairs += [(before + source, after + target) for source, target in part.alignment]
        before, after = before + len(part.source), after + len(part.target)
    return Attention(
        source=tuple(token for part in parts for token in part.source),
        target=tuple(token for part in parts for token in part.target),
        blocks=tuple(block for part in parts for block in part.blocks),
        alignment=tuple(pairs),
    )
