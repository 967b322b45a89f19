"""Put the tensors of another model where they belong in ours."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2edge_export.loaders.state_dict import Tensors
from seq2edge_export.model.transformer import Transformer


@dataclass(frozen=True)
class WeightMapping:
    """A tensor of theirs and the parameter of ours that it fills: three where it is query, key and value in one."""

    theirs: str
    ours: tuple[str, ...]


def shape_mismatch(place: WeightMapping, tensor: Tensor, model: Transformer) -> str:
    """What is wrong with a tensor for its place, or nothing; the model may be without content."""
    shape, wanted = tuple(tensor.shape), _wanted(place, model)
    if shape != wanted:
        return f"{place.theirs} has the shape {shape} instead of {wanted}"
    if not tensor.is_floating_point():
        return f"{place.theirs} holds {tensor.dtype} instead of floating-point numbers"
    return "" if torch.isfinite(tensor).all() else f"{place.theirs} holds NaN or infinity"


def tensor_problems(
    state: Tensors, places: Collection[WeightMapping], model: Transformer, *, ignored: Collection[str] = ()
) -> list[str]:
    """Every tensor that is missing, too many or wrong for its place; ``ignored`` ones may be there or not."""
    names = {place.theirs for place in places}
    problems = [f"{name} is missing" for name in sorted(names - state.keys() - set(ignored))]
    problems += [f"{name} has no place in it" for name in state if name not in names and name not in ignored]
    known = [place for place in places if place.theirs in state]
    return problems + [text for place in known if (text := shape_mismatch(place, state[place.theirs], model))]


def fill(model: Transformer, places: Iterable[WeightMapping], state: Tensors) -> None:
    """Copy every tensor to its place."""
    for place in places:
        for name, part in zip(place.ours, state[place.theirs].chunk(len(place.ours)), strict=True):
            assign(model.get_parameter(name), part)


@torch.no_grad()
def assign(place: Tensor, content: Tensor) -> None:
    """Copy a tensor into a parameter; into one without memory, it is the memory."""
    if place.is_meta:
        own = content.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        torch.utils.swap_tensors(place, nn.Parameter(own))  # wherever the parameter is used, tied ones too
    else:
        place.copy_(content)


def _wanted(place: WeightMapping, model: Transformer) -> tuple[int, ...]:
    rows, *rest = model.get_parameter(place.ours[0]).shape
    return rows * len(place.ours), *rest
