"""The layers of a Transformer and what they are made of. Shapes at line ends are as in ``model.py``."""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2edge.config.architecture import Architecture
from seq2edge_export.model import fused_ops

if TYPE_CHECKING:
    from seq2edge_export.model.attention_cache import LookBack

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "gelu_sigmoid": lambda states: states * torch.sigmoid(1.702 * states),
}


class KeysValues(NamedTuple):
    """What attention looks at: one layer's keys and values."""

    keys: Tensor  # (B, H, S, d)
    values: Tensor  # (B, H, S, d)


class Visible(NamedTuple):
    """What queries may look at, and how their scores are changed before the softmax."""

    mask: Tensor  # true where there is something; (B or 1, 1, T or 1, S) or (T, S)
    bias: Tensor | None = None  # (1, H, T, S), added to the scores
    ready: Tensor | None = None  # both in one for onnxruntime's operator, where they are given to the graph

    def for_operator(self, queries: Tensor) -> Tensor:
        return fused_ops.bias_of(self.mask, self.bias, queries) if self.ready is None else self.ready


class Buffer(NamedTuple):
    """Where new tokens go in a cache that has room for them, and what of the source they see, as a graph is told it."""

    positions: Tensor  # (T,): of the new tokens
    last: Tensor  # (R,): the place of the newest token
    total: Tensor  # (1,): how many there are then
    source_bias: Tensor  # (B, 1, Q, S): 0 or the lowest number, the same for every query

    @property
    def visible(self) -> Visible:
        return Visible(self.source_bias[:, :, :1] >= 0, ready=self.source_bias)


class MultiHeadAttention(nn.Module):
    """Multi-head scaled dot-product attention; the caller keeps the keys and values."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.heads = shape.heads
        self.scale = 1 / math.sqrt(shape.head_width) if shape.attention_scale is None else shape.attention_scale
        self.query = nn.Linear(shape.width, shape.inner_width, bias=shape.bias)
        self.key = nn.Linear(shape.width, shape.inner_width, bias=shape.bias)
        self.value = nn.Linear(shape.width, shape.inner_width, bias=shape.bias)
        self.output = nn.Linear(shape.inner_width, shape.width, bias=shape.bias)
        self.packed: nn.Linear | None = None  # query, key and value in one, for a cache in buffers

    def keys_values(self, states: Tensor) -> KeysValues:
        return KeysValues(self._split(self.key(states)), self._split(self.value(states)))

    def forward(
        self,
        states: Tensor,
        seen: KeysValues,
        visible: Visible,
        *,
        watch: list[Tensor] | None = None,
    ) -> Tensor:
        """Let ``states`` look at what is visible of ``seen``; ``watch`` collects how much they look at each."""
        queries = self._queries(states)  # (B, T, H * d)
        if fused_ops.wanted():
            if watch is not None:  # beside the operator, which on a CPU shows its scores but not its weights
                watch.append(self._weights(queries, seen.keys, visible))
            added = visible.for_operator(queries)
            return self.output(fused_ops.attention(queries, seen.keys, seen.values, added, heads=self.heads))
        weights = self._weights(queries, seen.keys, visible)  # (B, H, T, S)
        if watch is not None:
            watch.append(weights)
        mixed = (weights @ seen.values).transpose(1, 2).flatten(2)  # (B, T, H * d)
        return self.output(mixed)

    def into_buffer(self, states: Tensor, past: KeysValues, buffer: Buffer) -> tuple[Tensor, KeysValues]:
        """The same for tokens that are written into a buffer (R, H, L, d) behind those that are in it."""
        assert self.packed is not None
        mixed, keys, values = fused_ops.buffered_attention(
            self.packed(states), past.keys, past.values, buffer.last, buffer.total, heads=self.heads
        )
        return self.output(mixed), KeysValues(keys, values)

    def _queries(self, states: Tensor) -> Tensor:
        queries = self.query(states)
        return queries if self.scale == 1 else queries * self.scale

    def _weights(self, queries: Tensor, keys: Tensor, visible: Visible) -> Tensor:
        scores = self._split(queries) @ keys.transpose(2, 3)  # (B, H, T, S)
        if visible.bias is not None:
            scores = scores + visible.bias
        return scores.masked_fill(~visible.mask, torch.finfo(scores.dtype).min).softmax(dim=-1)

    def _split(self, states: Tensor) -> Tensor:
        return states.unflatten(2, (self.heads, -1)).transpose(1, 2)  # (B, H, T, d)


class Ssru(nn.Module):
    """The simpler simple recurrent unit: a cell that each token changes, where others look at all tokens before.

    cell[t] = keep[t] * cell[t - 1] + (1 - keep[t]) * input[t], and what is above zero of it goes on. Any number of new
    tokens is computed at once: a cell is the sum of all inputs up to it, each times all gates behind it. That takes
    T * T * D numbers a row, which for one new token is next to nothing.
    """

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.input = nn.Linear(shape.width, shape.width, bias=False)
        self.gate = nn.Linear(shape.width, shape.width, bias=shape.bias)

    def forward(self, states: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:  # (R, T, D), (R, D)
        gates = self.gate(states)  # (R, T, D)
        inputs = torch.sigmoid(-gates) * self.input(states)
        inputs = torch.cat([past[:, None], inputs], dim=1)  # (R, 1 + T, D)
        cells = (inputs[:, :, None] * self._kept(gates)).sum(dim=1)  # (R, T, D)
        return functional.relu(cells), cells[:, -1]

    @staticmethod
    def _kept(gates: Tensor) -> Tensor:
        """How much is left of the past (0) and of every input (1, 2, ...) at each new token; sums of logarithms."""
        inputs = torch.arange(gates.shape[1] + 1, device=gates.device)[:, None, None]  # (1 + T, 1, 1)
        tokens = inputs[1:].transpose(0, 1)  # (1, T, 1)
        kept = -functional.softplus(-gates)[:, None]  # (R, 1, T, D): the logarithm of the sigmoid
        together = torch.where(tokens > inputs, kept, 0.0).cumsum(dim=2)  # (R, 1 + T, T, D)
        return torch.where(tokens >= inputs, together.exp(), 0.0)


class FeedForward(nn.Module):
    """Two linear layers with an activation between, applied to each position alone."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[shape.activation]
        self.inner = nn.Linear(shape.width, shape.feed_forward, bias=shape.bias)
        self.gate = nn.Linear(shape.width, shape.feed_forward, bias=shape.bias) if shape.gated else None
        self.output = nn.Linear(shape.feed_forward, shape.width, bias=shape.bias)

    def forward(self, states: Tensor) -> Tensor:  # (B, T, D)
        if self.gate is None:
            return self.output(self.activation(self.inner(states)))
        return self.output(self.activation(self.gate(states)) * self.inner(states))


class RmsNorm(nn.Module):
    """Divide by the root of the mean square; nothing is subtracted, and there is no bias.

    nn.RMSNorm multiplies by a reciprocal instead; a division is what onnxruntime knows as one operator.
    """

    def __init__(self, width: int, *, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, states: Tensor) -> Tensor:  # (B, T, D)
        mean_square = states.pow(2).mean(dim=-1, keepdim=True)
        return states / torch.sqrt(mean_square + self.eps) * self.weight


def norm_of(shape: Architecture) -> nn.Module:
    kind = nn.LayerNorm if shape.norm == "layer" else RmsNorm
    return kind(shape.width, eps=shape.norm_epsilon)


class Residual(nn.Module):
    """What stands around every sublayer: the norm, before or after, and the way past it."""

    def __init__(self, shape: Architecture, dropout: float) -> None:
        super().__init__()
        self.norm_first = shape.norm_first
        self.norm = norm_of(shape)
        self.dropout = nn.Dropout(dropout)

    def enter(self, states: Tensor) -> Tensor:
        return self.norm(states) if self.norm_first else states

    def leave(self, states: Tensor, update: Tensor) -> Tensor:
        states = states + self.dropout(update)
        return states if self.norm_first else self.norm(states)


class EncoderLayer(nn.Module):
    def __init__(self, shape: Architecture, dropout: float) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(shape)
        self.attention_residual = Residual(shape, dropout)
        self.feed_forward = FeedForward(shape)
        self.feed_forward_residual = Residual(shape, dropout)

    def forward(self, states: Tensor, visible: Visible) -> Tensor:  # (B, S, D)
        inside = self.attention_residual.enter(states)
        update = self.attention(inside, self.attention.keys_values(inside), visible)
        states = self.attention_residual.leave(states, update)

        inside = self.feed_forward_residual.enter(states)
        return self.feed_forward_residual.leave(states, self.feed_forward(inside))


class DecoderLayer(nn.Module):
    def __init__(self, shape: Architecture, dropout: float) -> None:
        super().__init__()
        self.cell = Ssru(shape) if shape.decoder_cell == "ssru" else None
        self.attention = MultiHeadAttention(shape) if self.cell is None else None
        self.attention_residual = Residual(shape, dropout)  # around either
        self.cross = MultiHeadAttention(shape)
        self.cross_residual = Residual(shape, dropout)
        self.feed_forward = FeedForward(shape)
        self.feed_forward_residual = Residual(shape, dropout)

    def forward(
        self,
        states: Tensor,
        past: list[Tensor],
        look_back: "LookBack",
        source: KeysValues,
        visible: Visible,
        watch: list[Tensor] | None,
    ) -> tuple[Tensor, list[Tensor]]:
        inside = self.attention_residual.enter(states)
        update, present = look_back(self, inside, past)
        states = self.attention_residual.leave(states, update)  # (R, T, D)

        inside = self.cross_residual.enter(states)
        rows_as_queries = inside.reshape(source.keys.shape[0], -1, inside.shape[2])  # (B, R / B * T, D)
        update = self.cross(rows_as_queries, source, visible, watch=watch).reshape(inside.shape)
        states = self.cross_residual.leave(states, update)  # (R, T, D)

        inside = self.feed_forward_residual.enter(states)
        return self.feed_forward_residual.leave(states, self.feed_forward(inside)), present
