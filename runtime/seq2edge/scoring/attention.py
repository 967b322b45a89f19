"""Cross-attention of a translation, and the word alignment that follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from seq2edge.config.text import check_heads, parse_heads

Weights = NDArray[np.float32]
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Attention:
    """The attention of each target token to each source token, including special tokens."""

    source: tuple[str, ...]  # S tokens as text
    target: tuple[str, ...]  # T tokens
    blocks: tuple[Weights, ...] = field(compare=False, repr=False)  # (T, S) of each segment of the text
    alignment: Pairs  # (source, target) indices: for each ordinary target token, the source token with most attention

    @property
    def weights(self) -> Weights:
        """(T, S), rows sum to 1. A split text has one block per segment, and zeros between segments.

        It is computed on demand because the blocks of a very long text need far less memory.
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
        """The alignment in the format of Moses: ``0-0 1-2``."""
        return " ".join(f"{source}-{target}" for source, target in self.alignment)


def attention(
    weights: Weights, source: Sequence[str], target: Sequence[str], *, special: tuple[set[int], set[int]]
) -> Attention:
    """Return the attention of one segment; ``special`` are the positions of special tokens in source and target."""
    ordinary = [position for position in range(len(source)) if position not in special[0]]
    pairs: list[tuple[int, int]] = []
    if ordinary:
        best = weights[:, ordinary].argmax(axis=1)  # (T,)
        pairs = [(ordinary[best[position]], position) for position in range(len(target)) if position not in special[1]]
    return Attention(source=tuple(source), target=tuple(target), blocks=(weights,), alignment=tuple(sorted(pairs)))


def average(weights: Weights, heads: str) -> Weights:  # (L, H, T, S) -> (T, S)
    """Return the mean of the heads that ``TextOptions.attention`` names."""
    check_heads(heads, layers=weights.shape[0], heads=weights.shape[1])
    chosen = [
        weights[layer - 1].mean(axis=0) if head is None else weights[layer - 1, head - 1]
        for layer, head in parse_heads(heads)
    ]
    mean: Weights = np.mean(chosen, axis=0) if chosen else weights.mean(axis=(0, 1))
    return mean


def joined(segments: Sequence[Attention]) -> Attention:
    """Join the attention of the segments of a split text."""
    pairs: list[tuple[int, int]] = []
    source_tokens = target_tokens = 0  # of the segments so far
    for segment in segments:
        pairs += [(source_tokens + source, target_tokens + target) for source, target in segment.alignment]
        source_tokens, target_tokens = source_tokens + len(segment.source), target_tokens + len(segment.target)
    return Attention(
        source=tuple(token for segment in segments for token in segment.source),
        target=tuple(token for segment in segments for token in segment.target),
        blocks=tuple(block for segment in segments for block in segment.blocks),
        alignment=tuple(pairs),
    )
