"""Layers of the Transformer. Shapes at line ends are explained in ``transformer.py``."""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2edge.config.architecture import Architecture
from seq2edge_export.model import fused_ops
from seq2edge_export.model.token_packing import TokenPacking

if TYPE_CHECKING:
    from seq2edge_export.model.attention_cache import AttentionCache

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "gelu_sigmoid": lambda states: states * torch.sigmoid(1.702 * states),
}


class KeysValues(NamedTuple):
    """The keys and values of one attention layer."""

    keys: Tensor  # (B, H, S, d)
    values: Tensor  # (B, H, S, d)


class AttentionMask(NamedTuple):
    """Which keys the queries may attend to, and what is added to their scores before the softmax."""

    mask: Tensor  # true where attention is allowed; (B or 1, 1, T or 1, S) or (T, S)
    bias: Tensor | None = None  # (1, H, T, S), added to the scores
    fused_bias: Tensor | None = None  # both in one for the fused operator, where it is an input of the graph

    def additive(self, queries: Tensor) -> Tensor:
        return fused_ops.additive_mask(self.mask, self.bias, queries) if self.fused_bias is None else self.fused_bias


class MultiHeadAttention(nn.Module):
    """Multi-head scaled dot-product attention; the caller keeps the keys and values."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        width, inner_width, bias = architecture.width, architecture.inner_width, architecture.bias
        scale = architecture.attention_scale
        self.heads = architecture.heads
        self.scale = 1 / math.sqrt(architecture.head_width) if scale is None else scale
        self.query = nn.Linear(width, inner_width, bias=bias)
        self.key = nn.Linear(width, inner_width, bias=bias)
        self.value = nn.Linear(width, inner_width, bias=bias)
        self.output = nn.Linear(inner_width, width, bias=bias)
        self.packed: nn.Linear | None = None  # query, key and value in one, for an in-place cache

    def keys_values(self, states: Tensor) -> KeysValues:
        return KeysValues(self._split(self.key(states)), self._split(self.value(states)))

    def forward(
        self,
        states: Tensor,
        keys_values: KeysValues,
        mask: AttentionMask,
        *,
        collected_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Attend from ``states`` to keys and values; append the weights to ``collected_weights`` unless it is None."""
        keys, values = keys_values
        queries = self._queries(states)  # (B, T, H * d)
        if fused_ops.enabled():
            if collected_weights is not None:  # computed again: on a CPU the operator does not output its weights
                collected_weights.append(self._weights(queries, keys, mask))
            bias = mask.additive(queries)
            return self.output(fused_ops.attention(queries, keys, values, bias, heads=self.heads))
        weights = self._weights(queries, keys, mask)  # (B, H, T, S)
        if collected_weights is not None:
            collected_weights.append(weights)
        mixed = (weights @ values).transpose(1, 2).flatten(2)  # (B, T, H * d)
        return self.output(mixed)

    def over_tokens(self, states: Tensor, mask: AttentionMask, packing: TokenPacking) -> Tensor:  # (1, N, D)
        """Attend from each of the packed tokens to those of its sentence."""
        padded = packing.unpack(states)  # (B, S, D)
        queries, keys, values = self._queries(padded), self.key(padded), self.value(padded)  # (B, S, H * d)
        mixed = fused_ops.attention(queries, keys, values, mask.additive(queries), heads=self.heads)
        return self.output(packing.pack(mixed))

    def in_place(self, states: Tensor, past: KeysValues, *, last: Tensor, total: Tensor) -> tuple[Tensor, KeysValues]:
        """Attend causally to a preallocated cache (R, H, L, d) after writing the new keys and values into it."""
        assert self.packed is not None
        mixed, keys, values = fused_ops.inplace_attention(
            self.packed(states), past.keys, past.values, last, total, heads=self.heads
        )
        return self.output(mixed), KeysValues(keys, values)

    def _queries(self, states: Tensor) -> Tensor:
        queries = self.query(states)
        return queries if self.scale == 1 else queries * self.scale

    def _weights(self, queries: Tensor, keys: Tensor, mask: AttentionMask) -> Tensor:
        scores = self._split(queries) @ keys.transpose(2, 3)  # (B, H, T, S)
        if mask.bias is not None:
            scores = scores + mask.bias
        return scores.masked_fill(~mask.mask, torch.finfo(scores.dtype).min).softmax(dim=-1)

    def _split(self, states: Tensor) -> Tensor:
        return states.unflatten(2, (self.heads, -1)).transpose(1, 2)  # (B, H, T, d)


class Ssru(nn.Module):
    """The simpler simple recurrent unit (SSRU), which replaces self-attention in some decoders.

    cell[t] = keep[t] * cell[t - 1] + (1 - keep[t]) * input[t], and the output is relu(cell[t]). All new tokens are
    computed at once: a cell is the sum of all inputs up to it, each times the product of the later gates. That takes
    T * T * D values per row, which is little for one new token.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        width = architecture.width
        self.input = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, width, bias=architecture.bias)

    def forward(self, states: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:  # (R, T, D), (R, D)
        gates = self.gate(states)  # (R, T, D)
        inputs = torch.sigmoid(-gates) * self.input(states)
        inputs = torch.cat([past[:, None], inputs], dim=1)  # (R, 1 + T, D)
        cells = (inputs[:, :, None] * self._kept(gates)).sum(dim=1)  # (R, T, D)
        return functional.relu(cells), cells[:, -1]

    @staticmethod
    def _kept(gates: Tensor) -> Tensor:
        """Return the share of the past (0) and of every input (1, 2, ...) that is left at each new token."""
        inputs = torch.arange(gates.shape[1] + 1, device=gates.device)[:, None, None]  # (1 + T, 1, 1)
        tokens = inputs[1:].transpose(0, 1)  # (1, T, 1)
        log_keep = -functional.softplus(-gates)[:, None]  # (R, 1, T, D): the logarithm of the sigmoid
        log_product = torch.where(tokens > inputs, log_keep, 0.0).cumsum(dim=2)  # (R, 1 + T, T, D)
        return torch.where(tokens >= inputs, log_product.exp(), 0.0)


class FeedForward(nn.Module):
    """Two linear layers with an activation in between, applied to each position on its own."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        width, inner_width, bias = architecture.width, architecture.feed_forward, architecture.bias
        self.activation = ACTIVATIONS[architecture.activation]
        self.inner = nn.Linear(width, inner_width, bias=bias)
        self.gate = nn.Linear(width, inner_width, bias=bias) if architecture.gated else None
        self.output = nn.Linear(inner_width, width, bias=bias)

    def forward(self, states: Tensor) -> Tensor:  # (B, T, D)
        if self.gate is None:
            return self.output(self.activation(self.inner(states)))
        return self.output(self.activation(self.gate(states)) * self.inner(states))


class RmsNorm(nn.Module):
    """Divide by the root mean square, without subtracting the mean and without a bias.

    nn.RMSNorm multiplies by a reciprocal instead; onnxruntime only fuses the division into one operator.
    """

    def __init__(self, width: int, *, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, states: Tensor) -> Tensor:  # (B, T, D)
        mean_square = states.pow(2).mean(dim=-1, keepdim=True)
        return states / torch.sqrt(mean_square + self.eps) * self.weight


def make_norm(architecture: Architecture) -> nn.Module:
    norm = nn.LayerNorm if architecture.norm == "layer" else RmsNorm
    return norm(architecture.width, eps=architecture.norm_epsilon)


class Residual(nn.Module):
    """The residual connection around a sublayer, with its norm before or after."""

    def __init__(self, architecture: Architecture, dropout: float) -> None:
        super().__init__()
        self.norm_first = architecture.norm_first
        self.norm = make_norm(architecture)
        self.dropout = nn.Dropout(dropout)

    def enter(self, states: Tensor) -> Tensor:
        return self.norm(states) if self.norm_first else states

    def leave(self, states: Tensor, update: Tensor) -> Tensor:
        states = states + self.dropout(update)
        return states if self.norm_first else self.norm(states)


class EncoderLayer(nn.Module):
    def __init__(self, architecture: Architecture, dropout: float) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(architecture)
        self.attention_residual = Residual(architecture, dropout)
        self.feed_forward = FeedForward(architecture)
        self.feed_forward_residual = Residual(architecture, dropout)

    def forward(self, states: Tensor, mask: AttentionMask, packing: TokenPacking | None) -> Tensor:  # (B, S, D)
        inside = self.attention_residual.enter(states)
        if packing is None:
            update = self.attention(inside, self.attention.keys_values(inside), mask)
        else:
            update = self.attention.over_tokens(inside, mask, packing)
        states = self.attention_residual.leave(states, update)

        inside = self.feed_forward_residual.enter(states)
        return self.feed_forward_residual.leave(states, self.feed_forward(inside))


class DecoderLayer(nn.Module):
    def __init__(self, architecture: Architecture, dropout: float) -> None:
        super().__init__()
        self.cell = Ssru(architecture) if architecture.decoder_cell == "ssru" else None
        self.attention = MultiHeadAttention(architecture) if self.cell is None else None
        self.attention_residual = Residual(architecture, dropout)  # around attention or cell
        self.cross = MultiHeadAttention(architecture)
        self.cross_residual = Residual(architecture, dropout)
        self.feed_forward = FeedForward(architecture)
        self.feed_forward_residual = Residual(architecture, dropout)

    def forward(
        self,
        states: Tensor,
        past: list[Tensor],
        cache: "AttentionCache",
        source: KeysValues,
        source_mask: AttentionMask,
        collected_weights: list[Tensor] | None,
    ) -> tuple[Tensor, list[Tensor]]:
        inside = self.attention_residual.enter(states)
        update, present = cache(self, inside, past)
        states = self.attention_residual.leave(states, update)  # (R, T, D)

        inside = self.cross_residual.enter(states)
        rows_as_queries = inside.reshape(source.keys.shape[0], -1, inside.shape[2])  # (B, R / B * T, D)
        update = self.cross(rows_as_queries, source, source_mask, collected_weights=collected_weights)
        update = update.reshape(inside.shape)
        states = self.cross_residual.leave(states, update)  # (R, T, D)

        inside = self.feed_forward_residual.enter(states)
        return self.feed_forward_residual.leave(states, self.feed_forward(inside)), present
