"""The tensors of a Marian model file as it names them, whichever of the two formats it has; needs numpy."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from seq2edge.errors import CheckpointError

CONFIG = "special:model.yml"
NPZ, BIN = ".npz", ".bin"


@dataclass(frozen=True)
class Item:
    """A tensor before it is understood: its bytes, and Marian's number for what they are."""

    type: int
    shape: tuple[int, ...]
    content: NDArray[Any]  # uint8, and there may be more of them than the shape takes


Items = dict[str, Item]


def broken(path: Path, what: str) -> CheckpointError:
    return CheckpointError(f"{path} is broken: {what}; copy or convert the model again")
