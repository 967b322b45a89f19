"""The encoder-decoder Transformer of "Attention Is All You Need", readable in one sitting.

Shapes at line ends: B sentences, R rows of the search (one a sentence, or as many as it has beams), S source tokens,
T target tokens, P tokens already in the past, H heads, d numbers a head, D the width (mostly H * d), V the target
vocabulary.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from seq2edge.config.architecture import Architecture
from seq2edge_export.model.attention_cache import AppendCache, InplaceCache, LookBack, RecurrentCache, causal_mask
from seq2edge_export.model.embedding import Embedding, RelativeBias
from seq2edge_export.model.layers import Buffer, DecoderLayer, EncoderLayer, KeysValues, Visible, norm_of


class Decoded(NamedTuple):
    """What a decoder call gives back."""

    states: Tensor  # (R, T, D), ready for the output projection
    present: list[Tensor]  # the past of the next call


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
        look_back = self._look_back(target, before) if buffer is None else InplaceCache(buffer)
        present: list[Tensor] = []
        for layer, layer_past, layer_source in zip(self.decoder, pasts, source, strict=True):
            states, kept = layer(states, layer_past, look_back, layer_source, visible, watch)
            present += kept
        states = self.decoder_norm(states)
        if self.shape.output_scale != 1:
            states = states * self.shape.output_scale
        if isinstance(before, Tensor):
            present.append(before[:, 0] + target.shape[1])
        return Decoded(states, present)

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Logits of every next token under teacher forcing."""
        decoded = self.decode(target, self.encode(source, source_mask), source_mask)
        return self.output(decoded.states)  # (B, T, V)

    def log_probabilities(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """How likely each token is to come next; search and loss take their own from the logits."""
        return self(source, source_mask, target).log_softmax(dim=-1)  # (B, T, V)

    def _look_back(self, target: Tensor, before: int | Tensor) -> LookBack:
        if isinstance(before, Tensor):
            return RecurrentCache()
        new = target.shape[1]
        bias = self.decoder_bias(before, new) if self.decoder_bias is not None else None
        return AppendCache(Visible(causal_mask(past=before, new=new, device=target.device), bias))

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


def places_of(ids: Tensor) -> Tensor:  # (B, T) -> (T,)
    return torch.arange(ids.shape[1], device=ids.device)


def spread(mask: Tensor) -> Tensor:
    """Spread a padding mask over heads and queries."""
    return mask[:, None, None, :]  # (B, 1, 1, S)


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
