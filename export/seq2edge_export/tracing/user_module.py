"""Adapt a user's own PyTorch module for tracing.

The module does not declare its states: which axes differ between calls is found by calling it with different sizes.
"""

from typing import Protocol, cast

import torch
from torch import Tensor, nn

from seq2edge.bundle import tensor_names
from seq2edge.errors import CheckpointError
from seq2edge_export.tracing.graph_modules import (
    APPEND_INPUTS,
    Axes,
    DecoderGraph,
    EncoderDecoder,
    GraphModules,
    TensorSpec,
    decoder_outputs,
)

StateType = tuple[Axes, torch.dtype]
STATE_DTYPES = (torch.float32, torch.int64)


class Seq2SeqModule(Protocol):
    """The methods that an ``nn.Module`` needs in order to be exported.

    ``source_mask`` is true where there is a token. Rows are sentences, or the beams of all sentences, ordered by
    sentence: ``decode`` gets the states of ``encode`` with as many rows as ``target`` has. ``past`` holds everything
    that a step needs from earlier ones; a state may grow along one axis, or keep its shape.
    """

    def encode(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:
        """Encode source ids (B, S); return what the decoder needs, each tensor with the B rows as its first axis."""

    def empty_past(self, rows: int) -> list[Tensor]:
        """Return the past before the first token: zeros, with the rows as first axis and size 0 where a state grows."""

    def decode(
        self, target: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Continue with target ids (R, T); return logits (R, T, V), or (R, V) of the last token, and the new past."""


def module_graphs(module: nn.Module) -> GraphModules:
    """Find the names and shapes of a module's states and prepare it for tracing."""
    module.eval()
    with torch.inference_mode():
        cross_types = _cross_types(cast(Seq2SeqModule, module))
        past_types = _past_types(cast(Seq2SeqModule, module))
    modules = EncoderDecoder(ModuleEncoder(module), ModuleDecoder(module))
    past = _specs(tensor_names.numbered_past(len(past_types)), past_types)
    outputs = {tensor_names.DECODER: decoder_outputs([tensor_names.LOGITS], past)}
    decoder = DecoderGraph(modules.decoder, APPEND_INPUTS, outputs)
    return GraphModules(
        reference=modules,
        traced=modules,
        decoder_graphs={"ort": decoder, "portable": decoder},
        cross=_specs(tensor_names.numbered_cross(len(cross_types)), cross_types),
        past=past,
    )


class ModuleEncoder(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.model = module

    def forward(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:
        return list(cast(Seq2SeqModule, self.model).encode(source, source_mask))


class ModuleDecoder(nn.Module):
    """Select the rows of the past and repeat the states of each sentence for its beams."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.model = module

    def forward(
        self, target: Tensor, rows: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> list[Tensor]:
        selected = [state.index_select(0, rows.flatten()) for state in past]
        per_row = [_repeat_for_beams(state, target.shape[1]) for state in (source_mask, *cross)]
        module = cast(Seq2SeqModule, self.model)
        logits, present = module.decode(target.flatten(0, 1), per_row[0], per_row[1:], selected)
        last = logits if logits.dim() == 2 else logits[:, -1]  # (R, V)
        return [last.unflatten(0, target.shape[:2]), *present]


def _repeat_for_beams(state: Tensor, beams: int) -> Tensor:
    return state.unsqueeze(1).expand(-1, beams, *state.shape[1:]).flatten(0, 1)


def _cross_types(module: Seq2SeqModule) -> list[StateType]:
    short, long = (_encode(module, length) for length in (3, 5))
    return [
        _state_type(a, b, tensor_names.BATCH, tensor_names.SOURCE_LENGTH, grows=2)
        for a, b in zip(short, long, strict=True)
    ]


def _past_types(module: Seq2SeqModule) -> list[StateType]:
    before = module.empty_past(2)
    mask = torch.ones(2, 3, dtype=torch.bool)
    _, after = module.decode(torch.zeros(2, 1, dtype=torch.int64), mask, _encode(module, 3), before)
    if len(before) != len(after):
        raise CheckpointError(f"empty_past returns {len(before)} states, but decode returns {len(after)}")
    if any(bool(state.any()) for state in before):
        raise CheckpointError("empty_past returns values other than 0; add them in decode instead")
    return [
        _state_type(a, b, tensor_names.PAST_ROWS, tensor_names.PAST_LENGTH, grows=1)
        for a, b in zip(before, after, strict=True)
    ]


def _encode(module: Seq2SeqModule, length: int) -> list[Tensor]:
    return module.encode(torch.zeros(2, length, dtype=torch.int64), torch.ones(2, length, dtype=torch.bool))


def _state_type(small: Tensor, large: Tensor, rows: str, length: str, *, grows: int) -> StateType:
    """Name the first axis and the one that grew; the others keep their size."""
    if small.dim() != large.dim() or small.shape[0] != 2:
        raise CheckpointError(
            f"a state has the shape {tuple(small.shape)}, but its first axis must be the rows, which are 2 here"
        )
    if large.dtype not in STATE_DTYPES:
        raise CheckpointError(f"a state has the dtype {large.dtype}, but states must be float32 or int64")
    sizes = list(zip(small.shape[1:], large.shape[1:], strict=True))
    if any(b - a not in (0, grows) for a, b in sizes):
        raise CheckpointError(
            f"a state grew from {tuple(small.shape)} to {tuple(large.shape)}; an axis must keep its size, or grow by 1 "
            "for each token"
        )
    axes: list[str | int] = [length if b - a == grows else b for a, b in sizes]
    if axes.count(length) > 1:
        raise CheckpointError(f"a state of shape {tuple(large.shape)} grows along several axes, but only one may grow")
    return (rows, *axes), large.dtype


def _specs(names: list[str], types: list[StateType]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name, axes, dtype) for name, (axes, dtype) in zip(names, types, strict=True))
