"""Put the tensors of another model where they belong in ours; needs torch."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2edge_export.model import Transformer
from seq2edge_export.state_dict import StateDict


@dataclass(frozen=True)
class Place:
    """A tensor of theirs and the parameter of ours that it fills: three where it is query, key and value in one."""

    theirs: str
    ours: tuple[str, ...]


def misfit(place: Place, tensor: Tensor, model: Transformer) -> str:
    """What is wrong with a tensor for its place, or nothing; the model may be without content."""
    shape, wanted = tuple(tensor.shape), _wanted(place, model)
    if shape != wanted:
        return f"{place.theirs} has the shape {shape} instead of {wanted}"
    if not tensor.is_floating_point():
        return f"{place.theirs} holds {tensor.dtype} instead of floating-point numbers"
    return "" if torch.isfinite(tensor).all() else f"{place.theirs} holds NaN or infinity"


def fill(model: Transformer, places: Iterable[Place], state: StateDict) -> None:
    """Copy every tensor to its place."""
    with torch.no_grad():
        for place in places:
            for name, part in zip(place.ours, state[place.theirs].chunk(len(place.ours)), strict=True):
                model.get_parameter(name).copy_(part)


def _wanted(place: Place, model: Transformer) -> tuple[int, ...]:
    rows, *rest = model.get_parameter(place.ours[0]).shape
    return rows * len(place.ours), *rest
