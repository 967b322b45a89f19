"""How new tokens look at those before them, one way for each form of the cache.

Shapes at line ends are as in ``model.py``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2edge_export.model.layers import Buffer, DecoderLayer, KeysValues, Visible


@dataclass(frozen=True)
class AppendCache:
    """Let new tokens look at a cache that grows with every call: the past and they themselves behind it."""

    visible: Visible  # (T, P + T)

    def __call__(self, layer: DecoderLayer, states: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        assert layer.attention is not None
        present = _append(KeysValues(*past), layer.attention.keys_values(states))
        return layer.attention(states, present, self.visible), [*present]


@dataclass(frozen=True)
class InplaceCache:
    """The same with a buffer that has room for tokens to come, which onnxruntime fills in place."""

    buffer: Buffer

    def __call__(self, layer: DecoderLayer, states: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        assert layer.attention is not None
        update, present = layer.attention.into_buffer(states, KeysValues(*past), self.buffer)
        return update, [*present]


class RecurrentCache:
    """The same with a cell that has read all tokens before."""

    def __call__(self, layer: DecoderLayer, states: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        assert layer.cell is not None
        update, cell = layer.cell(states, *past)
        return update, [cell]


LookBack = AppendCache | InplaceCache | RecurrentCache


def causal_mask(*, past: int, new: int, device: torch.device) -> Tensor:
    """Each new position may look at the past, at itself and at new ones before it."""
    positions = torch.arange(past + new, device=device)
    return positions[None, :] <= positions[past:, None]  # (T, P + T)


def _append(past: KeysValues, new: KeysValues) -> KeysValues:
    return KeysValues(torch.cat([past.keys, new.keys], dim=2), torch.cat([past.values, new.values], dim=2))
