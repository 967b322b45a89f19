"""The encoder-decoder Transformer of "Attention Is All You Need", with the variants that checkpoints use.

Shapes at line ends: B sentences, R rows of the search (one per sentence, or one per beam), S source tokens, T target
tokens, P tokens in the cache, H heads, d the width of a head, D the width of the model (mostly H * d), V the target
vocabulary.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from seq2edge.config.architecture import Architecture
from seq2edge_export.model import fused_ops
from seq2edge_export.model.attention_cache import AppendCache, AttentionCache, InplaceCache, RecurrentCache, causal_mask
from seq2edge_export.model.embedding import Embedding, RelativeBias
from seq2edge_export.model.layers import AttentionMask, DecoderLayer, EncoderLayer, KeysValues, make_norm
from seq2edge_export.model.token_packing import pack_tokens


class Decoded(NamedTuple):
    """The result of a decoder call."""

    states: Tensor  # (R, T, D), input of the output projection
    present: list[Tensor]  # the past of the next call


class Transformer(nn.Module):
    """Encode a source once, then decode from any past; dropout applies only in training mode."""

    def __init__(self, architecture: Architecture, *, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        self.architecture = architecture
        width, final_norm = architecture.width, architecture.final_norm
        target_tokens = nn.Embedding(architecture.target_vocabulary, width)
        joint = architecture.joint_vocabulary
        source_tokens = target_tokens if joint else nn.Embedding(architecture.source_vocabulary, width)
        self.source_embedding = Embedding(architecture, source_tokens, dropout)
        self.target_embedding = Embedding(architecture, target_tokens, dropout, zero_start=architecture.zero_start)
        relative = architecture.positions == "relative"
        self.encoder_bias = RelativeBias(architecture, bidirectional=True) if relative else None
        self.decoder_bias = RelativeBias(architecture, bidirectional=False) if relative else None
        self.encoder = nn.ModuleList(EncoderLayer(architecture, dropout) for _ in range(architecture.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(architecture, dropout) for _ in range(architecture.decoder_layers))
        self.encoder_norm = make_norm(architecture) if final_norm else nn.Identity()
        self.decoder_norm = make_norm(architecture) if final_norm else nn.Identity()
        self.output = nn.Linear(width, architecture.target_vocabulary, bias=architecture.output_bias)
        if architecture.tied_output:
            self.output.weight = target_tokens.weight
        initialise(self, seed)

    def encode(self, source: Tensor, source_mask: Tensor) -> list[KeysValues]:
        """Return the cross-attention keys and values of every decoder layer."""
        positions, packing = positions_of(source), None
        if fused_ops.enabled():
            packing = pack_tokens(source_mask)
            source, positions = packing.pack_ids(source), packing.pack_ids(positions.expand(source.shape))
        states = self.source_embedding(source, positions)  # (B, S, D), or (1, N, D) if packed
        bias = self.encoder_bias(0, source_mask.shape[1]) if self.encoder_bias is not None else None
        mask = AttentionMask(broadcast_mask(source_mask), bias)
        for layer in self.encoder:
            states = layer(states, mask, packing)
        states = self.encoder_norm(states)
        if packing is not None:
            states = packing.unpack(states)
        layers = cast("list[DecoderLayer]", list(self.decoder))
        return [layer.cross.keys_values(states) for layer in layers]  # (B, H, S, d) each

    def decode(
        self,
        target: Tensor,
        source: list[KeysValues],
        source_mask: Tensor | None,
        past: list[Tensor] | None = None,
        *,
        inplace_cache: InplaceCache | None = None,
        collected_weights: list[Tensor] | None = None,
    ) -> Decoded:
        """Continue targets of any length (R, T) from a past of any length, which may be empty.

        The past comes from ``empty_past`` or from the call before, its rows reordered by the search. An in-place cache
        has its own source mask; only a traced graph can use it. Rows are ordered by sentence: with beams, every
        sentence of ``source`` has the same number of rows, which share its keys and values by counting as additional
        queries. The cross-attention weights of every layer (B, H, R / B * T, S) are appended to ``collected_weights``.
        """
        layer_pasts, length = self._split_past(past or self.empty_past(target.shape[0]))
        if inplace_cache is None:
            assert source_mask is not None
            positions, mask = length + positions_of(target), AttentionMask(broadcast_mask(source_mask))
        else:
            positions, mask = inplace_cache.positions, inplace_cache.source_mask
        states = self.target_embedding(target, positions)  # (R, T, D)
        cache = inplace_cache or self._growing_cache(target, length)
        present: list[Tensor] = []
        for layer, layer_past, layer_source in zip(self.decoder, layer_pasts, source, strict=True):
            states, layer_present = layer(states, layer_past, cache, layer_source, mask, collected_weights)
            present += layer_present
        states = self.decoder_norm(states)
        if self.architecture.output_scale != 1:
            states = states * self.architecture.output_scale
        if isinstance(length, Tensor):
            present.append(length[:, 0] + target.shape[1])
        return Decoded(states, present)

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Return the logits of every next token under teacher forcing."""
        decoded = self.decode(target, self.encode(source, source_mask), source_mask)
        return self.output(decoded.states)  # (B, T, V)

    def log_probabilities(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Return the log-probabilities of every next token; search and loss compute their own from the logits."""
        return self(source, source_mask, target).log_softmax(dim=-1)  # (B, T, V)

    def empty_past(self, rows: int) -> list[Tensor]:
        """Return keys and values of every layer (R, H, 0, d), or the cells (R, D) and a token count (R,) of an SSRU."""
        architecture, weight = self.architecture, self.output.weight
        if architecture.decoder_cell == "ssru":
            count = torch.zeros(rows, dtype=torch.long, device=weight.device)
            return [*[weight.new_zeros(rows, architecture.width)] * architecture.decoder_layers, count]
        keys = weight.new_empty(rows, architecture.heads, 0, architecture.head_width)
        return [keys] * (2 * architecture.decoder_layers)

    def _growing_cache(self, target: Tensor, length: int | Tensor) -> AttentionCache:
        if isinstance(length, Tensor):
            return RecurrentCache()
        new = target.shape[1]
        bias = self.decoder_bias(length, new) if self.decoder_bias is not None else None
        return AppendCache(AttentionMask(causal_mask(past=length, new=new, device=target.device), bias))

    def _split_past(self, past: list[Tensor]) -> tuple[list[list[Tensor]], int | Tensor]:
        """Return the past of each layer and the number of tokens in it: P of the keys, or the count (R, 1)."""
        if self.architecture.decoder_cell == "ssru":
            *cells, count = past
            return [[cell] for cell in cells], count[:, None]
        return [past[index : index + 2] for index in range(0, len(past), 2)], past[0].shape[2]


def without_weights(architecture: Architecture) -> Transformer:
    """Return a model with its computed tables, but with parameters on the meta device, which take no memory."""
    with torch.device("meta"):
        return Transformer(architecture)


def positions_of(ids: Tensor) -> Tensor:  # (B, T) -> (T,)
    return torch.arange(ids.shape[1], device=ids.device)


def broadcast_mask(mask: Tensor) -> Tensor:
    """Add axes for heads and queries to a padding mask."""
    return mask[:, None, None, :]  # (B, 1, 1, S)


def initialise(model: Transformer, seed: int) -> None:
    """Set the initial value of every parameter; the same seed gives the same model."""
    random = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if name.endswith("tokens.weight") or name == "output.weight":
            nn.init.normal_(parameter, std=model.architecture.width**-0.5, generator=random)
        elif name.endswith("positions"):
            nn.init.normal_(parameter, std=0.02, generator=random)
        elif parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter, generator=random)
        else:
            nn.init.constant_(parameter, 1.0 if name.endswith("norm.weight") else 0.0)
