"""Map the tensors of a checkpoint to the parameters of the Transformer, check them and copy them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2edge_export.loaders.state_dict import Tensors
from seq2edge_export.model.transformer import Transformer


@dataclass(frozen=True)
class WeightMapping:
    """A tensor of the checkpoint and the parameters it fills, several if they are stored as one (query, key, value)."""

    theirs: str
    ours: tuple[str, ...]


def mismatches(
    state: Tensors, weight_map: Collection[WeightMapping], model: Transformer, *, ignored: Collection[str] = ()
) -> list[str]:
    """List the tensors that are missing, unexpected, or of the wrong shape or content.

    Only the shapes of ``model`` are read, so it may be on the meta device. Tensors in ``ignored`` are allowed without a
    mapping.
    """
    expected = {mapping.theirs for mapping in weight_map}
    problems = [f"{name} is missing" for name in sorted(expected - state.keys())]
    problems += [f"{name} is unexpected" for name in sorted(state.keys() - expected - set(ignored))]
    problems += [_mismatch(mapping, state[mapping.theirs], model) for mapping in weight_map if mapping.theirs in state]
    return [problem for problem in dict.fromkeys(problems) if problem]


def fill(model: Transformer, weight_map: Iterable[WeightMapping], state: Tensors) -> None:
    """Copy every tensor of the checkpoint into its parameters."""
    for mapping in weight_map:
        for name, part in zip(mapping.ours, state[mapping.theirs].chunk(len(mapping.ours)), strict=True):
            assign(model.get_parameter(name), part)


@torch.no_grad()
def assign(parameter: Tensor, content: Tensor) -> None:
    """Copy a tensor into a parameter; one on the meta device is replaced wherever it is used, tied ones too."""
    if parameter.is_meta:
        own = content.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        torch.utils.swap_tensors(parameter, nn.Parameter(own))
    else:
        parameter.copy_(content)


def _mismatch(mapping: WeightMapping, tensor: Tensor, model: Transformer) -> str:
    rows, *rest = model.get_parameter(mapping.ours[0]).shape
    shape, expected = tuple(tensor.shape), (rows * len(mapping.ours), *rest)
    if shape != expected:
        return f"{mapping.theirs} has shape {shape}, expected {expected}"
    if not tensor.is_floating_point():
        return f"{mapping.theirs} has dtype {tensor.dtype}, expected floating point"
    return "" if torch.isfinite(tensor).all() else f"{mapping.theirs} contains NaN or infinity"
