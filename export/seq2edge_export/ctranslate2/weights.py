"""CTranslate2's arrays as float32 tensors, with the numbers that its own float32 run would have; needs torch."""

import numpy as np
import torch
from torch import Tensor

from seq2edge.errors import CheckpointError
from seq2edge_export.ctranslate2.binary import SCALE, Array, Variables
from seq2edge_export.state_dict import StateDict

INT16_SCALE = np.float32(1000)  # of int16 weights that were saved without one


def widen(variables: Variables) -> StateDict:
    """Every array that is more than a single number, by its name; two names of one array stay one tensor."""
    made: dict[int, Tensor] = {}
    state: StateDict = {}
    for name, array in variables.items():
        if not array.ndim or name.endswith(SCALE):
            continue
        if id(array) not in made:
            with np.errstate(all="ignore"):  # what is then infinite is refused with its name
                made[id(array)] = torch.from_numpy(_float32(name, array, variables.get(name + SCALE)))
        state[name] = made[id(array)]
    return state


def _float32(name: str, array: Array, scale: Array | None) -> Array:
    if array.dtype == np.int16:
        return array.astype(np.float32) * _inverse(name, INT16_SCALE if scale is None else scale, ())
    if array.dtype == np.int8 and name.endswith("weight"):
        return array.astype(np.float32) * _inverse(name, scale, array.shape[:1])[:, None]
    return np.array(array, np.float32 if array.dtype.kind == "f" else array.dtype)


def _inverse(name: str, scale: Array | np.float32 | None, shape: tuple[int, ...]) -> Array:
    """One over the scale in float32: what CTranslate2 multiplies by, where dividing would round otherwise."""
    if scale is None or scale.shape != shape or scale.dtype.kind != "f" or not np.all(scale):
        raise CheckpointError(f"{name} holds integers, but {name}{SCALE} is missing or of another shape, or has a zero")
    return np.asarray(np.float32(1) / scale.astype(np.float32))
