"""Everything that a killed run needs to go on as if nothing had happened; needs torch."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from seq2edge.errors import CheckpointError
from seq2edge.files import replaced_file
from seq2edge_export.training.history import Measurement

KEYS = {"progress", "model", "optimizer", "random", "cuda_random", "settings"}


@dataclass
class Progress:
    """Where the run is."""

    step: int = 0
    epoch: int = 0
    position: int = 0  # batches of this epoch that are done
    seconds: float = 0.0
    loss_sum: float = 0.0  # since the last measurement
    loss_tokens: int = 0
    history: list[Measurement] = field(default_factory=list)


def save_state(path: Path, progress: Progress, model: Any, optimizer: Any, settings: dict[str, Any]) -> None:
    """Write model, optimizer, random numbers and place; complete or not at all."""
    state = {
        "progress": asdict(progress),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": torch.get_rng_state(),
        "cuda_random": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "settings": settings,
    }
    with replaced_file(path) as new, new.open("wb") as file:  # opened here, so that errors say what the system said
        torch.save(state, file)


def read_state(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"there is nothing to resume: {path} does not exist; leave out --resume") from None
    except Exception as error:  # torch.load raises whatever its reader meets
        raise CheckpointError(f"{path} is not a training state ({type(error).__name__})") from None
    missing = KEYS - state.keys() if isinstance(state, dict) else KEYS
    if missing:
        raise CheckpointError(f"{path} is not a training state: it lacks {', '.join(sorted(missing))}")
    return state


def restore(state: dict[str, Any], model: Any, optimizer: Any) -> Progress:
    """Put a saved state back and give the place where it was."""
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    if state["cuda_random"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda_random"])
    values = dict(state["progress"])
    values["history"] = [Measurement(**row) for row in values["history"]]
    return Progress(**values)
