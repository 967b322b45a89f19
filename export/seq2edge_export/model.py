"""The encoder-decoder Transformer of "Attention Is All You Need", readable in one sitting; needs torch.

Shapes at line ends: B sentences, R rows of the search (one a sentence, or as many as it has beams), S source tokens,
T target tokens, P tokens already in the past, H heads, d numbers a head, D the width (mostly H * d), V the target
vocabulary.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2edge.architecture import Architecture
from seq2edge_export import fused

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
        return fused.bias_of(self.mask, self.bias, queries) if self.ready is None else self.ready


class Buffer(NamedTuple):
    """Where new tokens go in a cache that has room for them, and what of the source they see, as a graph is told it."""

    positions: Tensor  # (T,): of the new tokens
    last: Tensor  # (R,): the place of the newest token
    total: Tensor  # (1,): how many there are then
    source_bias: Tensor  # (B, 1, Q, S): 0 or the lowest number, the same for every query

    @property
    def visible(self) -> Visible:
        return Visible(self.source_bias[:, :, :1] >= 0, ready=self.source_bias)


class Decoded(NamedTuple):
    """What a decoder call gives back."""

    states: Tensor  # (R, T, D), ready for the output projection
    present: list[Tensor]  # the past of the next call


class Attention(nn.Module):
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
        if fused.wanted():
            if watch is not None:  # beside the operator, which on a CPU shows its scores but not its weights
                watch.append(self._weights(queries, seen.keys, visible))
            added = visible.for_operator(queries)
            return self.output(fused.attention(queries, seen.keys, seen.values, added, heads=self.heads))
        weights = self._weights(queries, seen.keys, visible)  # (B, H, T, S)
        if watch is not None:
            watch.append(weights)
        mixed = (weights @ seen.values).transpose(1, 2).flatten(2)  # (B, T, H * d)
        return self.output(mixed)

    def into_buffer(self, states: Tensor, past: KeysValues, buffer: Buffer) -> tuple[Tensor, KeysValues]:
        """The same for tokens that are written into a buffer (R, H, L, d) behind those that are in it."""
        assert self.packed is not None
        mixed, keys, values = fused.buffered_attention(
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
        self.attention = Attention(shape)
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
        self.attention = Attention(shape) if self.cell is None else None
        self.attention_residual = Residual(shape, dropout)  # around either
        self.cross = Attention(shape)
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


@dataclass(frozen=True)
class Appending:
    """Let new tokens look at a cache that grows with every call: the past and they themselves behind it."""

    visible: Visible  # (T, P + T)

    def __call__(self, layer: DecoderLayer, states: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        assert layer.attention is not None
        present = _append(KeysValues(*past), layer.attention.keys_values(states))
        return layer.attention(states, present, self.visible), [*present]


@dataclass(frozen=True)
class Buffering:
    """The same with a buffer that has room for tokens to come, which onnxruntime fills in place."""

    buffer: Buffer

    def __call__(self, layer: DecoderLayer, states: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        assert layer.attention is not None
        update, present = layer.attention.into_buffer(states, KeysValues(*past), self.buffer)
        return update, [*present]


@dataclass(frozen=True)
class Writing:
    """The same with a buffer of which one place is written, in standard operators: no shape changes, nothing moves."""

    place: Tensor  # (1,): of the new token
    places: Tensor  # (L,): all that there are

    def __call__(self, layer: DecoderLayer, states: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        assert layer.attention is not None
        here, seen = (self.places == self.place)[:, None], self.places <= self.place  # (L, 1), (L,)
        new = layer.attention.keys_values(states)  # (R, H, 1, d)
        present = KeysValues(*(torch.where(here, own, before) for own, before in zip(new, past, strict=True)))
        return layer.attention(states, present, Visible(seen[None])), [*present]


class Recurring:
    """The same with a cell that has read all tokens before."""

    def __call__(self, layer: DecoderLayer, states: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        assert layer.cell is not None
        update, cell = layer.cell(states, *past)
        return update, [cell]


LookBack = Appending | Buffering | Writing | Recurring


class Embedding(nn.Module):
    """Token vectors times the root of the width or another factor, plus a vector for each position.

    With ``zero_start`` the token at the very beginning counts for nothing, whatever it is.
    """

    positions: Tensor | None

    def __init__(self, shape: Architecture, tokens: nn.Embedding, dropout: float, *, zero_start: bool = False) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = math.sqrt(shape.width) if shape.embedding_scale is None else shape.embedding_scale
        self.zero_start = zero_start
        self.norm = norm_of(shape) if shape.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        if shape.positions == "learned":
            self.positions = nn.Parameter(torch.empty(shape.max_positions, shape.width))
        else:
            table = sinusoids(shape) if shape.positions.startswith("sinusoidal") else None
            self.register_buffer("positions", table, persistent=False)

    def forward(self, ids: Tensor, places: Tensor) -> Tensor:
        """The vectors of ids (B, T) at these places (T,), or (B, T) where those of the rows differ."""
        return self._added(ids, places, None if self.positions is None else self.positions[places])

    def at(self, ids: Tensor, place: Tensor) -> Tensor:
        """The vectors of ids (B, K) that are all at one place (1,)."""
        # Not by indexing: CUDA's operator for that copies numbers from the host, where a replay would find others.
        return self._added(ids, place, None if self.positions is None else self.positions.index_select(0, place))

    def _added(self, ids: Tensor, places: Tensor, positions: Tensor | None) -> Tensor:
        states = self.tokens(ids) * self.scale  # (B, T, D)
        if self.zero_start:
            states = states * (places > 0)[..., None]
        if positions is not None:
            states = states + positions  # (T, D) or (B, T, D)
        return self.dropout(self.norm(states))


class RelativeBias(nn.Module):
    """What each head adds to its scores for how far a key is from the query; far distances share a bucket."""

    buckets: Tensor

    def __init__(self, shape: Architecture, *, both_ways: bool) -> None:
        super().__init__()
        self.farthest = shape.relative_distance
        self.heads = nn.Embedding(shape.relative_buckets, shape.heads)
        self.register_buffer("buckets", distance_buckets(shape, both_ways=both_ways), persistent=False)

    def forward(self, past: int, new: int) -> Tensor:
        places = torch.arange(past + new, device=self.buckets.device)
        distances = places[None, :] - places[past:, None]  # (T, P + T)
        buckets = self.buckets[distances.clamp(-self.farthest, self.farthest) + self.farthest]
        return self.heads(buckets).permute(2, 0, 1)[None]  # (1, H, T, P + T)


class Transformer(nn.Module):
    """The whole model: encode once, then decode from any past; dropout works only in training mode."""

    def __init__(self, shape: Architecture, *, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        target_tokens = nn.Embedding(shape.target_vocabulary, shape.width)
        source_tokens = target_tokens if shape.joint_vocabulary else nn.Embedding(shape.source_vocabulary, shape.width)
        self.source_embedding = Embedding(shape, source_tokens, dropout)
        self.target_embedding = Embedding(shape, target_tokens, dropout, zero_start=shape.zero_start)
        relative = shape.positions == "relative"
        self.encoder_bias = RelativeBias(shape, both_ways=True) if relative else None
        self.decoder_bias = RelativeBias(shape, both_ways=False) if relative else None
        self.encoder = nn.ModuleList(EncoderLayer(shape, dropout) for _ in range(shape.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(shape, dropout) for _ in range(shape.decoder_layers))
        self.encoder_norm = norm_of(shape) if shape.final_norm else nn.Identity()
        self.decoder_norm = norm_of(shape) if shape.final_norm else nn.Identity()
        self.output = nn.Linear(shape.width, shape.target_vocabulary, bias=shape.output_bias)
        if shape.tied_output:
            self.output.weight = target_tokens.weight
        initialise(self, seed)

    def encode(self, source: Tensor, source_mask: Tensor) -> list[KeysValues]:
        """Read the source; give the cross-attention keys and values of every decoder layer."""
        states = self.source_embedding(source, places_of(source))  # (B, S, D)
        bias = self.encoder_bias(0, source.shape[1]) if self.encoder_bias is not None else None
        visible = Visible(spread(source_mask), bias)
        for layer in self.encoder:
            states = layer(states, visible)
        states = self.encoder_norm(states)
        layers = cast("list[DecoderLayer]", list(self.decoder))
        return [layer.cross.keys_values(states) for layer in layers]  # (B, H, S, d) each

    def decode(
        self,
        target: Tensor,
        source: list[KeysValues],
        source_mask: Tensor | None,
        past: list[Tensor] | None = None,
        *,
        buffer: Buffer | None = None,
        watch: list[Tensor] | None = None,
    ) -> Decoded:
        """Continue targets of any length (R, T) from a past of any length, empty included.

        The past is what ``empty_past`` or the call before gave, with its rows in the order in which they go on.
        With ``buffer``, the past has room for the new tokens, and no mask is needed; only a traced graph has such.
        The rows are ordered by sentence: with beams, each sentence of ``source`` has the same number of them, and they
        share its keys and values by counting as more queries. ``watch`` collects the cross-attention weights of every
        layer (B, H, R / B * T, S): where each target token looked.
        """
        pasts, before = self._unpacked(past or self.empty_past(target.shape[0]))
        if buffer is None:
            assert source_mask is not None
            places, visible = before + places_of(target), Visible(spread(source_mask))
        else:
            places, visible = buffer.positions, buffer.visible
        states = self.target_embedding(target, places)  # (R, T, D)
        look_back = self._look_back(target, before) if buffer is None else Buffering(buffer)
        decoded = self._through_layers(states, pasts, look_back, source, visible, watch)
        if isinstance(before, Tensor):
            decoded.present.append(before[:, 0] + target.shape[1])
        return decoded

    def decode_at(
        self, target: Tensor, source: list[KeysValues], source_mask: Tensor, past: list[Tensor], writing: "Writing"
    ) -> Decoded:
        """Continue each row with one token (B, K), which is written into a cache that has room (R, H, L, d)."""
        states = self.target_embedding.at(target, writing.place).flatten(0, 1)[:, None]  # (R, 1, D)
        pasts, _ = self._unpacked(past)
        return self._through_layers(states, pasts, writing, source, Visible(spread(source_mask)), None)

    def _through_layers(
        self,
        states: Tensor,
        pasts: list[list[Tensor]],
        look_back: "LookBack",
        source: list[KeysValues],
        visible: Visible,
        watch: list[Tensor] | None,
    ) -> Decoded:
        present: list[Tensor] = []
        for layer, layer_past, layer_source in zip(self.decoder, pasts, source, strict=True):
            states, kept = layer(states, layer_past, look_back, layer_source, visible, watch)
            present += kept
        states = self.decoder_norm(states)
        return Decoded(states if self.shape.output_scale == 1 else states * self.shape.output_scale, present)

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Logits of every next token under teacher forcing."""
        decoded = self.decode(target, self.encode(source, source_mask), source_mask)
        return self.output(decoded.states)  # (B, T, V)

    def log_probabilities(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """How likely each token is to come next; search and loss take their own from the logits."""
        return self(source, source_mask, target).log_softmax(dim=-1)  # (B, T, V)

    def _look_back(self, target: Tensor, before: int | Tensor) -> "LookBack":
        if isinstance(before, Tensor):
            return Recurring()
        new = target.shape[1]
        bias = self.decoder_bias(before, new) if self.decoder_bias is not None else None
        return Appending(Visible(causal_mask(past=before, new=new, device=target.device), bias))

    def empty_past(self, rows: int) -> list[Tensor]:
        """Keys and values of every layer (R, H, 0, d); of a recurrent decoder the cells (R, D), then a count (R,)."""
        shape, weight = self.shape, self.output.weight
        if shape.decoder_cell == "ssru":
            count = torch.zeros(rows, dtype=torch.long, device=weight.device)
            return [*[weight.new_zeros(rows, shape.width)] * shape.decoder_layers, count]
        return [weight.new_empty(rows, shape.heads, 0, shape.head_width)] * (2 * shape.decoder_layers)

    def _unpacked(self, past: list[Tensor]) -> tuple[list[list[Tensor]], int | Tensor]:
        """What each layer left, and how many tokens were before: the length of the keys P, or the count (R, 1)."""
        if self.shape.decoder_cell == "ssru":
            *cells, count = past
            return [[cell] for cell in cells], count[:, None]
        return [past[place : place + 2] for place in range(0, len(past), 2)], past[0].shape[2]


def without_weights(shape: Architecture) -> Transformer:
    """The model with its computed tables, but with parameters that take no memory until they are put there."""
    with torch.device("meta"):
        return Transformer(shape)


def norm_of(shape: Architecture) -> nn.Module:
    kind = nn.LayerNorm if shape.norm == "layer" else RmsNorm
    return kind(shape.width, eps=shape.norm_epsilon)


def places_of(ids: Tensor) -> Tensor:  # (B, T) -> (T,)
    return torch.arange(ids.shape[1], device=ids.device)


def spread(mask: Tensor) -> Tensor:
    """Spread a padding mask over heads and queries."""
    return mask[:, None, None, :]  # (B, 1, 1, S)


def causal_mask(*, past: int, new: int, device: torch.device) -> Tensor:
    """Each new position may look at the past, at itself and at new ones before it."""
    positions = torch.arange(past + new, device=device)
    return positions[None, :] <= positions[past:, None]  # (T, P + T)


def sinusoids(shape: Architecture) -> Tensor:
    """Waves of growing length, sine and cosine of each; computed in double precision."""
    stretched = shape.positions == "sinusoidal_stretched"  # the last wave is then the longest, and not the one behind
    waves = torch.arange(0, shape.width, 2, dtype=torch.float64, device="cpu") / (shape.width - 2 * stretched)
    positions = shape.position_offset + torch.arange(shape.max_positions, dtype=torch.float64, device="cpu")
    angles = positions[:, None] * 10_000.0**-waves  # (positions, D / 2)
    if shape.positions != "sinusoidal":
        return torch.cat([angles.sin(), angles.cos()], dim=1).float()
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1).float()


def distance_buckets(shape: Architecture, *, both_ways: bool) -> Tensor:
    """The bucket of every distance (key minus query) from the farthest before to the farthest behind.

    Half of the buckets are for one distance each, the others for ranges that grow. It is a table, as the logarithm of
    another runtime could round a distance into the next bucket.
    """
    distances = torch.arange(-shape.relative_distance, shape.relative_distance + 1, device="cpu")
    count = shape.relative_buckets // 2 if both_ways else shape.relative_buckets
    steps = distances.abs() if both_ways else (-distances).clamp(min=0)
    near = count // 2
    growth = torch.log(steps.float() / near) / math.log(shape.relative_distance / near)  # minus infinity at 0
    far = (near + (growth * (count - near)).clamp(min=0).long()).clamp(max=count - 1)
    buckets = torch.where(steps < near, steps, far)
    return buckets + (distances > 0) * count if both_ways else buckets


def initialise(model: Transformer, seed: int) -> None:
    """Give every parameter its first value; the same seed gives the same model."""
    random = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if name.endswith("tokens.weight") or name == "output.weight":
            nn.init.normal_(parameter, std=model.shape.width**-0.5, generator=random)
        elif name.endswith("positions"):
            nn.init.normal_(parameter, std=0.02, generator=random)
        elif parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter, generator=random)
        else:
            nn.init.constant_(parameter, 1.0 if name.endswith("norm.weight") else 0.0)


def _append(past: KeysValues, new: KeysValues) -> KeysValues:
    return KeysValues(torch.cat([past.keys, new.keys], dim=2), torch.cat([past.values, new.values], dim=2))
