"""The two modules that become the two graphs, and what their states look like; needs torch."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2edge import names
from seq2edge_export.model import KeysValues, Transformer

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
    """

    encoder: nn.Module
    decoder: nn.Module
    cross: tuple[State, ...]
    past: tuple[State, ...]

    @property
    def present(self) -> list[str]:
        return [names.present_of(state.name) for state in self.past]


class TransformerEncoder(nn.Module):
    """Source ids and mask to the cross-attention keys and values of every decoder layer."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:  # (B, S), (B, S)
        return _flat(self.model.encode(source, source_mask))


class TransformerDecoder(nn.Module):
    """New target ids, the rows they continue and the cache to the last logits and the new cache."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, target: Tensor, rows: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> list[Tensor]:
        chosen = rows.flatten()  # (R,): B sentences with K rows each
        selected = [tensor.index_select(0, chosen) for tensor in past]  # (R, H, P, d)
        decoded = self.model.decode(target.flatten(0, 1), _paired(cross), source_mask, _paired(selected))
        logits = self.model.output(decoded.states[:, -1]).unflatten(0, target.shape[:2])  # (B, K, V)
        return [logits, *_flat(decoded.present)]


def transformer_graphs(model: Transformer) -> GraphModules:
    """The graphs of our own Transformer: keys and values of every decoder layer."""
    shape = model.shape
    cross: Axes = (names.BATCH, shape.heads, names.SOURCE_LENGTH, shape.head_width)
    past: Axes = (names.PAST_ROWS, shape.heads, names.PAST_LENGTH, shape.head_width)
    return GraphModules(
        TransformerEncoder(model),
        TransformerDecoder(model),
        tuple(State(name, cross) for name in names.cross(shape.decoder_layers)),
        tuple(State(name, past) for name in names.past(shape.decoder_layers)),
    )


def _flat(layers: list[KeysValues]) -> list[Tensor]:
    return [tensor for layer in layers for tensor in layer]


def _paired(tensors: list[Tensor]) -> list[KeysValues]:
    return [KeysValues(*tensors[place : place + 2]) for place in range(0, len(tensors), 2)]
