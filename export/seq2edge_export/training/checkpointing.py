"""Everything that a killed run needs to go on as if nothing had happened.

One sentence for everything that can go wrong while files are written.

The average of the last measured weights, which translates better than any of them.

Find out whether an output folder holds a run, and whether a job may go on with it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.errors import CheckpointError, DataError, UsageError
from seq2edge_export import checkpoint
from seq2edge_export.checkpoint import CheckpointConfig, save_weights, weights_of
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.training.config import Job, ModelSettings, TokenizerSettings, TrainingSettings
from seq2edge_export.training.report import Evaluation
from seq2edge_export.training.tokenizer import MODEL_NAMES

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
    history: list[Evaluation] = field(default_factory=list)


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
    values["history"] = [Evaluation(**row) for row in values["history"]]
    return Progress(**values)


@contextmanager
def saving(folder: Path) -> Iterator[None]:
    """Turn a full disk or a folder that refuses into one error, whichever writer meets it.

    Nothing but writing may stand inside: PyTorch and safetensors wrap the system's error in errors of their own.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        raise DataError(
            f"{folder} cannot be written ({_reason(error)}); whatever was saved before is still whole, "
            "so make room or another --output, and go on with --resume if the training had begun"
        ) from None


def _reason(error: BaseException) -> str:
    """What the system said, which may stand behind what a library said."""
    cause = error.__context__ if isinstance(error.__context__, OSError) else error
    return str(getattr(cause, "strerror", None) or cause).lower()


def keep_weights(folder: Path, model: Transformer, *, step: int, most: int) -> list[Path]:
    """Save the weights of this step, drop the oldest, and give the files that remain."""
    save_weights(folder / f"weights-{step:08d}.safetensors", weights_of(model))
    files = kept_weights(folder)
    for path in files[:-most]:
        path.unlink()
    return files[-most:]


def forget_weights_after(folder: Path, step: int) -> None:
    """Remove what a run saved between its last state and its end, and will come to again."""
    for path in kept_weights(folder):
        if int(path.stem.removeprefix("weights-")) > step:
            path.unlink()


def kept_weights(folder: Path) -> list[Path]:
    """The files with weights, oldest first."""
    return sorted(folder.glob("weights-*.safetensors"))


def load_average(files: list[Path], model: Transformer, *, dtype: torch.dtype = torch.float32) -> None:
    """Fill ``model`` with the mean of some saved weights, summed in double precision and rounded to ``dtype``."""
    sums = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in weights_of(model).items()}
    for path in files:
        for name, tensor in load_file(path).items():
            sums[name] += tensor.to(sums[name].device, torch.float64)
    with torch.no_grad():
        for name, parameter in weights_of(model).items():
            parameter.copy_((sums[name] / len(files)).to(dtype))


# What a resumed run may change: none of it touches the updates already made.
FREE_TO_CHANGE = {
    *("max_steps", "cooldown_steps", "evaluate_every", "save_every", "patience"),
    *("device", "precision", "threads", "store"),
}
# All that a start writes before the first state. A folder with nothing else in it was killed while it started.
STARTED_WITH = {"training", checkpoint.CONFIG, checkpoint.GENERATION, *MODEL_NAMES}


def has_begun(job: Job, *, resume: bool) -> bool:
    """Whether there is a run to resume; a folder that may not be written to is refused."""
    if resume and job.state.exists():
        return True
    if job.output.is_dir() and not _is_free(job.output):
        what = "holds no training to resume" if resume else "is not empty; give --resume to go on with a training in it"
        raise UsageError(f"{job.output} {what}, or another --output to start one")
    if job.output.exists() and not job.output.is_dir():
        raise UsageError(f"{job.output} is a file, but --output must be a folder")
    return False


def state_to_resume(job: Job) -> dict[str, Any]:
    """The last saved state, if the job fits it."""
    state = read_state(job.state)
    defaults = {**asdict(TokenizerSettings()), **asdict(ModelSettings()), **asdict(TrainingSettings())}
    was, now = {**defaults, **state["settings"]}, job.settings
    names = [name for name in now if now[name] != was[name] and name not in FREE_TO_CHANGE]
    if names:
        changed = "; ".join(f"--{name.replace('_', '-')} was {was[name]} and is {now[name]}" for name in names)
        raise UsageError(f"a resumed run must keep its settings, but {changed}")
    if state["progress"]["step"] > job.training.max_steps:
        made = state["progress"]["step"]
        raise UsageError(f"--max-steps is {job.training.max_steps}, but {made} updates are made already; give more")
    return state


def config_to_resume(job: Job) -> CheckpointConfig:
    """The checkpoint's config, which takes over licence and attribution if the job gives them."""
    config = checkpoint.read_config(job.output)
    for now, was in ((job.source_language, config.source_language), (job.target_language, config.target_language)):
        if now not in ("", was):
            raise UsageError(f"a resumed run must keep its languages, but {was!r} became {now!r}")
    given = replace(config, license=job.license or config.license, attribution=job.attribution or config.attribution)
    if given != config:
        with saving(job.output), replaced_file(job.output / checkpoint.CONFIG) as new:
            new.write_text(json.dumps(asdict(given), indent=2) + "\n", encoding="utf-8")
    return given


def tidy(job: Job, *, step: int) -> None:
    """Remove what a killed run left behind: files half written, and weights from after its last state."""
    with saving(job.output):
        for path in [*job.output.iterdir(), *job.work.iterdir()]:
            if _is_half_written(path):
                path.unlink()
        forget_weights_after(job.work, step)


def _is_free(output: Path) -> bool:
    """Whether the folder is empty, or holds only what a killed start leaves."""
    names = {path.name for path in output.iterdir() if not _is_half_written(path)}
    return names <= STARTED_WITH and not (output / "training" / "state.pt").exists()


def _is_half_written(path: Path) -> bool:
    """A file under the name that it has until it is complete: ours, or the one inside safetensors."""
    ours = path.name.startswith(".") and path.suffix == ".new"
    return path.is_file() and (ours or path.name.startswith(".tmp"))
