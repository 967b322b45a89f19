"""The modules that become the graphs, and what their states look like."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from seq2edge.bundle import tensor_names
from seq2edge.config.architecture import Architecture
from seq2edge_export.model.layers import Buffer, KeysValues
from seq2edge_export.model.transformer import Decoded, Transformer
from seq2edge_export.model.weight_folding import folded

Axes = tuple[str | int, ...]  # a name where the size changes from call to call


@dataclass(frozen=True)
class State:
    """A tensor that goes from the encoder to the decoder, or from one decoder call to the next."""

    name: str
    axes: Axes
    dtype: torch.dtype = torch.float32

    def zeros(self, sizes: Mapping[str, int], device: torch.device | None = None) -> Tensor:
        """The state with the given sizes of the axes that change."""
        shape = [sizes[axis] if isinstance(axis, str) else axis for axis in self.axes]
        return torch.zeros(shape, dtype=self.dtype, device=device)


@dataclass(frozen=True)
class GraphModules:
    """An encoder and a decoder that can be run in PyTorch and traced into graphs alike.

    encoder(source (B, S), source_mask (B, S)) -> cross states, each of B rows
    decoder(target (B, K, T), rows (B, K), source_mask, cross, past) -> logits (B, K, V) and the present states

    The watched decoder gives behind these the logits of every new position (B, K, T, V) and the cross-attention weights
    (B, L, H, K * T, S). It is traced in the decoder's place and split, so that scoring costs no second trace.

    The buffered one is traced instead where onnxruntime's fused operators may be used: its cache has room for tokens to
    come, is filled in place and never moved by the graph. In the place of ``rows`` it takes the ``positions`` (T,) of
    the new tokens, the place of the ``last`` of them in each row (R,), their ``total`` (1,) and which rows are
    ``wanted`` (W,): the logits (W, V) are of these alone, in this order. In the place of the mask it takes the
    ``source_bias`` (B, 1, Q, S), the same for every query. Behind the logits it gives what the search wants to know of
    all of them, the logarithm of how often their exponentials hold the largest (W,).

    ``traced`` is the same model with less to compute, of which the graphs are made; left out, it is this one.
    """

    encoder: nn.Module
    decoder: nn.Module
    cross: tuple[State, ...]
    past: tuple[State, ...]
    watched: nn.Module | None = None  # None: a module of its own kind, which shows no attention
    buffered: nn.Module | None = None  # None: its cache only grows
    traced: "GraphModules | None" = None

    def outputs(self, *, buffered: bool) -> dict[str, list[str]]:
        """What each graph gives that is a part of the traced decoder, in the order of the trace."""
        scores = [tensor_names.LOGITS, tensor_names.LOG_TOTALS] if buffered else [tensor_names.LOGITS]
        parts = {tensor_names.DECODER: [*scores, *(tensor_names.present_of(state.name) for state in self.past)]}
        return (
            parts
            if self.watched is None
            else {**parts, tensor_names.SCORER: [tensor_names.ALL_LOGITS, tensor_names.ATTENTION]}
        )


class GraphPart(nn.Module):
    """A side of a model that becomes a graph."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model


class TransformerEncoder(GraphPart):
    """Source ids and mask to the cross-attention keys and values of every decoder layer."""

    def forward(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:  # (B, S), (B, S)
        return _flat(self.model.encode(source, source_mask))


class TransformerDecoder(GraphPart):
    """New target ids, the rows they continue and the cache to the last logits and the new cache."""

    def forward(
        self, target: Tensor, rows: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> list[Tensor]:
        return self._last(target, self._decode(target, rows, source_mask, cross, past, watch=None))

    def _decode(
        self,
        target: Tensor,
        rows: Tensor,
        source_mask: Tensor,
        cross: list[Tensor],
        past: list[Tensor],
        *,
        watch: list[Tensor] | None,
    ) -> Decoded:
        return self.model.decode(target.flatten(0, 1), _paired(cross), source_mask, _selected(past, rows), watch=watch)

    def _last(self, target: Tensor, decoded: Decoded) -> list[Tensor]:
        logits = self.model.output(decoded.states[:, -1]).unflatten(0, target.shape[:2])  # (B, K, V)
        return [logits, *decoded.present]


class WatchedTransformerDecoder(TransformerDecoder):
    """The same with the logits of every new position and where each looked, which only the traced graph needs."""

    def forward(
        self, target: Tensor, rows: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> list[Tensor]:
        watch: list[Tensor] = []  # (B, H, K * T, S) a layer
        decoded = self._decode(target, rows, source_mask, cross, past, watch=watch)
        watched = _watched(self.model, target, decoded, watch)
        return [*self._last(target, decoded), *watched]  # in this order: values are named by the last call of a module


class BufferedTransformerDecoder(GraphPart):
    """The same with a cache in buffers, of whose rows each is continued by the same row."""

    def forward(
        self,
        target: Tensor,
        positions: Tensor,
        last: Tensor,
        total: Tensor,
        wanted: Tensor,
        source_bias: Tensor,
        cross: list[Tensor],
        past: list[Tensor],
    ) -> list[Tensor]:
        watch: list[Tensor] = []  # (B, H, K * T, S) a layer
        new = target.flatten(0, 1)  # (R, T)
        buffer = Buffer(positions, last, total, source_bias)
        decoded = self.model.decode(new, _paired(cross), None, past, buffer=buffer, watch=watch)
        watched = _watched(self.model, target, decoded, watch)
        logits = self.model.output(decoded.states[:, -1].index_select(0, wanted))  # (W, V)
        return [logits, _log_totals(logits), *decoded.present, *watched]


def _selected(past: list[Tensor], rows: Tensor) -> list[Tensor]:
    """The rows of a cache that go on, of B sentences with K rows each."""
    chosen = rows.flatten()  # (R,)
    return [tensor.index_select(0, chosen) for tensor in past]  # (R, ...)


def _log_totals(logits: Tensor) -> Tensor:  # (W, V) -> (W,)
    """log(sum(exp(logits - largest))): the largest share is 1 over that sum. No operator is faster than the softmax."""
    return -logits.softmax(dim=-1).amax(dim=-1).log()


def _watched(model: Transformer, target: Tensor, decoded: Decoded, watch: list[Tensor]) -> list[Tensor]:
    positions = decoded.states.flatten(0, 1)  # (R * T, D): of two axes, so that the output weight has one layout
    all_logits = model.output(positions).unflatten(0, target.shape)  # (B, K, T, V)
    return [all_logits, torch.stack(watch, dim=1)]


def transformer_graphs(model: Transformer) -> GraphModules:
    """The graphs of our own Transformer: keys and values of every decoder layer."""
    return replace(_graphs(model), traced=_graphs(folded(model)))


def _graphs(model: Transformer) -> GraphModules:
    shape = model.shape
    cross: Axes = (tensor_names.BATCH, shape.heads, tensor_names.SOURCE_LENGTH, shape.head_width)
    return GraphModules(
        TransformerEncoder(model),
        TransformerDecoder(model),
        tuple(State(name, cross) for name in tensor_names.cross(shape.decoder_layers)),
        _past_of(shape),
        WatchedTransformerDecoder(model),
        BufferedTransformerDecoder(model) if _fits_buffers(shape) else None,
    )


def _fits_buffers(shape: Architecture) -> bool:
    """Whether onnxruntime's operator can do it: it has no bias for distances, and wants heads of eights."""
    return shape.decoder_cell == "attention" and shape.positions != "relative" and shape.head_width % 8 == 0


def _past_of(shape: Architecture) -> tuple[State, ...]:
    """What one call of the decoder leaves to the next, in the order of ``Transformer.empty_past``."""
    if shape.decoder_cell == "ssru":
        *cells, count = tensor_names.past_cells(shape.decoder_layers)
        cell: Axes = (tensor_names.PAST_ROWS, shape.width)
        return *(State(name, cell) for name in cells), State(count, (tensor_names.PAST_ROWS,), torch.int64)
    keys: Axes = (tensor_names.PAST_ROWS, shape.heads, tensor_names.PAST_LENGTH, shape.head_width)
    return tuple(State(name, keys) for name in tensor_names.past(shape.decoder_layers))


def _flat(layers: list[KeysValues]) -> list[Tensor]:
    return [tensor for layer in layers for tensor in layer]


def _paired(tensors: list[Tensor]) -> list[KeysValues]:
    return [KeysValues(*tensors[place : place + 2]) for place in range(0, len(tensors), 2)]
