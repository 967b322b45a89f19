"""Self-attention of the decoder over each form of the KV cache.

Shapes at line ends are explained in ``transformer.py``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2edge_export.model.layers import AttentionMask, DecoderLayer, KeysValues


@dataclass(frozen=True)
class AppendCache:
    """Append the new keys and values to a cache that grows with every call."""

    mask: AttentionMask  # (T, P + T)

    def __call__(self, layer: DecoderLayer, states: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        assert layer.attention is not None
        present = _append(KeysValues(*past), layer.attention.keys_values(states))
        return layer.attention(states, present, self.mask), [*present]


@dataclass(frozen=True)
class InplaceCache:
    """Write the new keys and values into preallocated arrays; onnxruntime updates them in place.

    The fields are inputs of the traced graph, which the runtime computes.
    """

    positions: Tensor  # (T,): of the new tokens
    last: Tensor  # (R,): position of the newest token
    total: Tensor  # (1,): number of tokens, including the new ones
    source_bias: Tensor  # (B, 1, Q, S): 0 or the lowest float, the same for every query

    @property
    def source_mask(self) -> AttentionMask:
        return AttentionMask(self.source_bias[:, :, :1] >= 0, fused_bias=self.source_bias)

    def __call__(self, layer: DecoderLayer, states: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        assert layer.attention is not None
        update, present = layer.attention.in_place(states, KeysValues(*past), last=self.last, total=self.total)
        return update, [*present]


class RecurrentCache:
    """Update the cell of a recurrent layer, which summarizes all tokens so far."""

    def __call__(self, layer: DecoderLayer, states: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        assert layer.cell is not None
        update, cell = layer.cell(states, *past)
        return update, [cell]


AttentionCache = AppendCache | InplaceCache | RecurrentCache


def causal_mask(*, past: int, new: int, device: torch.device) -> Tensor:
    """Let each new position attend to the past, to itself and to the new positions before it."""
    positions = torch.arange(past + new, device=device)
    return positions[None, :] <= positions[past:, None]  # (T, P + T)


def _append(past: KeysValues, new: KeysValues) -> KeysValues:
    return KeysValues(torch.cat([past.keys, new.keys], dim=2), torch.cat([past.values, new.values], dim=2))
