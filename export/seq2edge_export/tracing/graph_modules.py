"""The encoder and decoder modules that are traced into the graphs of a bundle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Dialect
from seq2edge.config.architecture import Architecture
from seq2edge_export.model import fused_ops
from seq2edge_export.model.attention_cache import InplaceCache
from seq2edge_export.model.layers import KeysValues
from seq2edge_export.model.transformer import Decoded, Transformer
from seq2edge_export.model.weight_folding import fold_weights

Axes = tuple[str | int, ...]  # a name where the size differs between calls


@dataclass(frozen=True)
class TensorSpec:
    """An input of a graph, or a state that it receives from another call."""

    name: str
    axes: Axes
    dtype: torch.dtype = torch.float32

    def zeros(self, sizes: Mapping[str, int], device: torch.device | None = None) -> Tensor:
        shape = [sizes[axis] if isinstance(axis, str) else axis for axis in self.axes]
        return torch.zeros(shape, dtype=self.dtype, device=device)


SOURCE = TensorSpec(tensor_names.SOURCE, (tensor_names.BATCH, tensor_names.SOURCE_LENGTH), torch.int64)
SOURCE_MASK = TensorSpec(tensor_names.SOURCE_MASK, (tensor_names.BATCH, tensor_names.SOURCE_LENGTH), torch.bool)
TARGET = TensorSpec(
    tensor_names.TARGET, (tensor_names.BATCH, tensor_names.ROWS_PER_SENTENCE, tensor_names.NEW_LENGTH), torch.int64
)
ROWS = TensorSpec(tensor_names.ROWS, (tensor_names.BATCH, tensor_names.ROWS_PER_SENTENCE), torch.int64)
POSITIONS = TensorSpec(tensor_names.POSITIONS, (tensor_names.NEW_LENGTH,), torch.int64)
LAST = TensorSpec(tensor_names.LAST, (tensor_names.PAST_ROWS,), torch.int32)
TOTAL = TensorSpec(tensor_names.TOTAL, (1,), torch.int32)
WANTED = TensorSpec(tensor_names.WANTED, (tensor_names.WANTED_ROWS,), torch.int64)
SOURCE_BIAS = TensorSpec(
    tensor_names.SOURCE_BIAS, (tensor_names.BATCH, 1, tensor_names.QUERIES, tensor_names.SOURCE_LENGTH)
)
ENCODER_INPUTS = (SOURCE, SOURCE_MASK)
APPEND_INPUTS = (TARGET, ROWS, SOURCE_MASK)
INPLACE_INPUTS = (TARGET, POSITIONS, LAST, TOTAL, WANTED, SOURCE_BIAS)


@dataclass(frozen=True)
class EncoderDecoder:
    """A model as two modules that run in PyTorch.

    encoder(source (B, S), source_mask (B, S)) -> cross-attention states, each with B rows
    decoder(target (B, K, T), rows (B, K), source_mask, cross, past) -> logits (B, K, V) and the present states
    """

    encoder: nn.Module
    decoder: nn.Module


@dataclass(frozen=True)
class DecoderGraph:
    """A decoder to trace, and the graphs that the trace is split into.

    The module takes ``inputs``, the cross-attention states and the past.
    """

    module: nn.Module
    inputs: tuple[TensorSpec, ...]
    outputs: dict[str, list[str]]  # by graph, in the order in which the module returns them


@dataclass(frozen=True)
class GraphModules:
    """A model to compare with, and the modules to trace."""

    reference: EncoderDecoder
    traced: EncoderDecoder  # the reference, or an equivalent model with less to compute
    decoder_graphs: Mapping[Dialect, DecoderGraph]
    cross: tuple[TensorSpec, ...]  # from the encoder to the decoder
    past: tuple[TensorSpec, ...]  # from one decoder call to the next


def transformer_graphs(model: Transformer) -> GraphModules:
    """Return the modules of our own Transformer; its states are the keys and values of every decoder layer."""
    architecture, folded = model.architecture, fold_weights(model)
    past = _past_specs(architecture)
    append = DecoderGraph(DecoderWithAttention(folded), APPEND_INPUTS, _outputs([tensor_names.LOGITS], past))
    scores = [tensor_names.LOGITS, tensor_names.LOG_TOTALS]
    inplace = DecoderGraph(InplaceDecoder(folded), INPLACE_INPUTS, _outputs(scores, past))
    return GraphModules(
        reference=EncoderDecoder(TransformerEncoder(model), TransformerDecoder(model)),
        traced=EncoderDecoder(TransformerEncoder(folded), TransformerDecoder(folded)),
        decoder_graphs={"portable": append, "ort": inplace if _supports_inplace_cache(architecture) else append},
        cross=_cross_specs(architecture),
        past=past,
    )


def decoder_outputs(scores: Sequence[str], past: Sequence[TensorSpec]) -> list[str]:
    """Return the names of the outputs of the decoder graph: the scores and the present states."""
    return [*scores, *(tensor_names.present_of(state.name) for state in past)]


class TransformerModule(nn.Module):
    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model


class TransformerEncoder(TransformerModule):
    """Compute the cross-attention keys and values of every decoder layer."""

    def forward(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:  # (B, S), (B, S)
        return _flatten(self.model.encode(source, source_mask))


class TransformerDecoder(TransformerModule):
    """Compute the logits of the last position and the present states, with a cache that grows."""

    def forward(
        self, target: Tensor, rows: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> list[Tensor]:
        return self._last(target, self._decode(target, rows, source_mask, cross, past, weights=None))

    def _decode(
        self,
        target: Tensor,
        rows: Tensor,
        source_mask: Tensor,
        cross: list[Tensor],
        past: list[Tensor],
        *,
        weights: list[Tensor] | None,
    ) -> Decoded:
        new, rows = target.flatten(0, 1), rows.flatten()  # (R, T), (R,)
        selected = [state.index_select(0, rows) for state in past]  # (R, ...)
        return self.model.decode(new, _pair(cross), source_mask, selected, collected_weights=weights)

    def _last(self, target: Tensor, decoded: Decoded) -> list[Tensor]:
        logits = self.model.output(decoded.states[:, -1]).unflatten(0, target.shape[:2])  # (B, K, V)
        return [logits, *decoded.present]


class DecoderWithAttention(TransformerDecoder):
    """Also return the logits of all new positions (B, K, T, V) and the cross-attention weights (B, L, H, K * T, S).

    It is traced instead of ``TransformerDecoder`` and split, so that the scorer needs no second trace.
    """

    def forward(
        self, target: Tensor, rows: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> list[Tensor]:
        weights: list[Tensor] = []  # (B, H, K * T, S) per layer
        decoded = self._decode(target, rows, source_mask, cross, past, weights=weights)
        scorer = _scorer_outputs(self.model, target, decoded, weights)
        return [*self._last(target, decoded), *scorer]  # computed last: values are named by the last call of a module


class InplaceDecoder(TransformerModule):
    """Decode with an in-place cache: every row continues the same row of the cache, and nothing is moved.

    ``wanted`` (W,) selects the rows whose logits (W, V) are returned, followed by their log-normalizers relative to the
    largest logit (W,). The inputs ``positions``, ``last``, ``total`` and ``source_bias`` are those of ``InplaceCache``.
    """

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
        weights: list[Tensor] = []  # (B, H, K * T, S) per layer
        new = target.flatten(0, 1)  # (R, T)
        cache = InplaceCache(positions, last, total, source_bias)
        decoded = self.model.decode(new, _pair(cross), None, past, inplace_cache=cache, collected_weights=weights)
        scorer = _scorer_outputs(self.model, target, decoded, weights)
        logits = self.model.output(decoded.states[:, -1].index_select(0, wanted))  # (W, V)
        return [logits, _log_totals(logits), *decoded.present, *scorer]


def _log_totals(logits: Tensor) -> Tensor:  # (W, V) -> (W,)
    """Compute log(sum(exp(logits - max))) as -log(max(softmax)), as no operator is faster than the softmax."""
    return -fused_ops.row_log(logits.softmax(dim=-1).amax(dim=-1, keepdim=True))


def _scorer_outputs(model: Transformer, target: Tensor, decoded: Decoded, weights: list[Tensor]) -> list[Tensor]:
    positions = decoded.states.flatten(0, 1)  # (R * T, D): two axes, so that the output weight has one layout
    all_logits = model.output(positions).unflatten(0, target.shape)  # (B, K, T, V)
    return [all_logits, torch.stack(weights, dim=1)]


def _outputs(scores: Sequence[str], past: Sequence[TensorSpec]) -> dict[str, list[str]]:
    return {
        tensor_names.DECODER: decoder_outputs(scores, past),
        tensor_names.SCORER: [tensor_names.ALL_LOGITS, tensor_names.ATTENTION],
    }


def _supports_inplace_cache(architecture: Architecture) -> bool:
    """Return whether onnxruntime's operator can be used: it has no position bias and needs head widths of 8 * n."""
    attention = architecture.decoder_cell == "attention" and architecture.positions != "relative"
    return attention and architecture.head_width % 8 == 0


def _cross_specs(architecture: Architecture) -> tuple[TensorSpec, ...]:
    axes: Axes = (tensor_names.BATCH, architecture.heads, tensor_names.SOURCE_LENGTH, architecture.head_width)
    return tuple(TensorSpec(name, axes) for name in tensor_names.cross(architecture.decoder_layers))


def _past_specs(architecture: Architecture) -> tuple[TensorSpec, ...]:
    """Return the states in the order of ``Transformer.empty_past``."""
    if architecture.decoder_cell == "ssru":
        *cells, count = tensor_names.past_cells(architecture.decoder_layers)
        cell: Axes = (tensor_names.PAST_ROWS, architecture.width)
        return *(TensorSpec(name, cell) for name in cells), TensorSpec(count, (tensor_names.PAST_ROWS,), torch.int64)
    keys: Axes = (tensor_names.PAST_ROWS, architecture.heads, tensor_names.PAST_LENGTH, architecture.head_width)
    return tuple(TensorSpec(name, keys) for name in tensor_names.past(architecture.decoder_layers))


def _flatten(layers: list[KeysValues]) -> list[Tensor]:
    return [tensor for layer in layers for tensor in layer]


def _pair(tensors: list[Tensor]) -> list[KeysValues]:
    return [KeysValues(*tensors[index : index + 2]) for index in range(0, len(tensors), 2)]
