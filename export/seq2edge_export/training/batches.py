"""Batches of sentences of like length, about the same number of tokens each; needs numpy and torch."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Encoded = tuple[list[int], list[int]]  # source ids and target ids, each with its end mark


@dataclass(frozen=True)
class Batch:
    """Padded tensors for teacher forcing."""

    source: Tensor  # (B, S)
    source_mask: Tensor  # (B, S), true where there is a token
    target_input: Tensor  # (B, T), begins with the start mark
    target_output: Tensor  # (B, T), ends with the end mark; padding where there is nothing to learn

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(tensor.to(device) for tensor in vars(self).values()))


def plan_epoch(lengths: np.ndarray, *, batch_tokens: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Group the sentences of one epoch; the same seed and epoch always give the same plan.

    A batch holds sentences of nearly the same length, so that little is padding: its rows times its longest side stay
    within ``batch_tokens``, unless a single sentence is longer than that. Sentences of equal length meet in a new order
    every epoch, and so do the batches, of which there are always as many.
    """
    random = np.random.default_rng([seed, epoch])
    order = np.lexsort((random.random(len(lengths)), lengths[:, 0], lengths[:, 1]))
    longest = lengths.max(axis=1)
    batches = _cut(order, longest[order], batch_tokens)
    return [batches[place] for place in random.permutation(len(batches))]


def _cut(order: np.ndarray, longest: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Cut the ordered sentences where one more would make the padded batch too large."""
    cuts, begin, widest = [], 0, 0
    for place, length in enumerate(longest.tolist()):
        widest = max(widest, length)
        if place > begin and widest * (place - begin + 1) > batch_tokens:
            cuts.append(place)
            begin, widest = place, length
    return np.split(order, cuts)


def plan_in_order(lengths: np.ndarray, *, batch_tokens: int) -> list[np.ndarray]:
    """Group sentences for measuring: the same plan every time."""
    return plan_epoch(lengths, batch_tokens=batch_tokens, seed=0, epoch=0)


def lengths_of(encoded: list[Encoded]) -> np.ndarray:
    return np.array([(len(source), len(target)) for source, target in encoded])  # (N, 2)


def make_batch(rows: list[Encoded], *, pad: int, start: int) -> Batch:
    """Pad the rows and shift the target by one."""
    source = pad_rows([source for source, _ in rows], pad)
    output = pad_rows([target for _, target in rows], pad)
    shifted = torch.cat([torch.full((len(rows), 1), start), output[:, :-1]], dim=1)
    source_mask = mask_of([source for source, _ in rows])
    return Batch(source, source_mask, shifted, output)


def pad_rows(rows: list[list[int]], pad: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [pad] * (width - len(row)) for row in rows])


def mask_of(rows: list[list[int]]) -> Tensor:
    lengths = torch.tensor([len(row) for row in rows])
    return torch.arange(int(lengths.max())) < lengths[:, None]
