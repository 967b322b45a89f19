"""Any PyTorch module that can encode, and decode one step from a past, as the two modules that become graphs.

Needs torch. The module says what its states are by giving them: which axes change from call to call is found by calling
it with different sizes.
"""

from typing import Protocol, cast

import torch
from torch import Tensor, nn

from seq2edge.bundle import tensor_names
from seq2edge.errors import CheckpointError
from seq2edge_export.tracing.graph_modules import Axes, GraphModules, State

Kind = tuple[Axes, torch.dtype]
STATE_TYPES = (torch.float32, torch.int64)


class Seq2SeqModule(Protocol):
    """What an ``nn.Module`` of your own must offer to be exported.

    ``source_mask`` is true where there is a token. Rows are sentences, or the beams of sentences one after the other:
    the states of ``encode`` come to ``decode`` with as many rows as ``target`` has. Everything that a later step needs
    of an earlier one is in ``past``; a state may grow along one axis, or keep its shape.
    """

    def encode(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:
        """Read source ids (B, S); give what the decoder needs of them, each tensor with B rows first."""

    def empty_past(self, rows: int) -> list[Tensor]:
        """The past before the first token: zeros, each tensor with its rows first, and of size 0 where it grows."""

    def decode(
        self, target: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Continue with target ids (R, T); give logits (R, T, V), or of the last token alone, and the new past."""


class ModuleEncoder(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.model = module

    def forward(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:
        return list(cast(Seq2SeqModule, self.model).encode(source, source_mask))


class ModuleDecoder(nn.Module):
    """Selects the rows of the past, and gives every beam the states of its sentence."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.model = module

    def forward(
        self, target: Tensor, rows: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> list[Tensor]:
        selected = [state.index_select(0, rows.flatten()) for state in past]
        per_row = [_for_each_beam(state, target.shape[1]) for state in (source_mask, *cross)]
        module = cast(Seq2SeqModule, self.model)
        logits, present = module.decode(target.flatten(0, 1), per_row[0], per_row[1:], selected)
        last = logits if logits.dim() == 2 else logits[:, -1]  # (R, V)
        return [last.unflatten(0, target.shape[:2]), *present]


def module_graphs(module: nn.Module) -> GraphModules:
    """Find out what a module's states look like and make it ready to be traced."""
    module.eval()
    with torch.inference_mode():
        cross = _cross_kinds(cast(Seq2SeqModule, module))
        past = _past_kinds(cast(Seq2SeqModule, module))
    return GraphModules(
        ModuleEncoder(module),
        ModuleDecoder(module),
        _named(tensor_names.numbered_cross(len(cross)), cross),
        _named(tensor_names.numbered_past(len(past)), past),
    )


def _for_each_beam(state: Tensor, beams: int) -> Tensor:
    return state.unsqueeze(1).expand(-1, beams, *state.shape[1:]).flatten(0, 1)


def _cross_kinds(module: Seq2SeqModule) -> list[Kind]:
    short, long = (_encode(module, length) for length in (3, 5))
    return [
        _kind(a, b, tensor_names.BATCH, tensor_names.SOURCE_LENGTH, grows=2) for a, b in zip(short, long, strict=True)
    ]


def _past_kinds(module: Seq2SeqModule) -> list[Kind]:
    before = module.empty_past(2)
    mask = torch.ones(2, 3, dtype=torch.bool)
    _, after = module.decode(torch.zeros(2, 1, dtype=torch.int64), mask, _encode(module, 3), before)
    if len(before) != len(after):
        raise CheckpointError(f"empty_past gives {len(before)} states, but decode gives {len(after)}")
    if any(bool(state.any()) for state in before):
        raise CheckpointError("empty_past gives numbers other than 0; add them in decode instead")
    return [
        _kind(a, b, tensor_names.PAST_ROWS, tensor_names.PAST_LENGTH, grows=1)
        for a, b in zip(before, after, strict=True)
    ]


def _encode(module: Seq2SeqModule, length: int) -> list[Tensor]:
    return module.encode(torch.zeros(2, length, dtype=torch.int64), torch.ones(2, length, dtype=torch.bool))


def _kind(small: Tensor, large: Tensor, rows: str, length: str, *, grows: int) -> Kind:
    """Name the first axis, and the one that grew; the others stay as they are."""
    if small.dim() != large.dim() or small.shape[0] != 2:
        raise CheckpointError(
            f"a state has the shape {tuple(small.shape)}, but its first axis should be the rows, here 2"
        )
    if large.dtype not in STATE_TYPES:
        raise CheckpointError(f"a state holds {large.dtype}, but states are float32 or int64")
    sizes = list(zip(small.shape[1:], large.shape[1:], strict=True))
    if any(b - a not in (0, grows) for a, b in sizes):
        raise CheckpointError(f"a state grew from {tuple(small.shape)} to {tuple(large.shape)}; one step is one longer")
    axes: list[str | int] = [length if b - a == grows else b for a, b in sizes]
    if axes.count(length) > 1:
        raise CheckpointError(f"a state of shape {tuple(large.shape)} grows along more than one axis; give it one")
    return (rows, *axes), large.dtype


def _named(state_names: list[str], kinds: list[Kind]) -> tuple[State, ...]:
    return tuple(State(name, *kind) for name, kind in zip(state_names, kinds, strict=True))
