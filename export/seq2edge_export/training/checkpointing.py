"""Save the state of a training run, resume from it or start from a checkpoint, and average the saved weights."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.errors import CheckpointError, DataError, UsageError
from seq2edge_export import checkpoint
from seq2edge_export.checkpoint import CheckpointConfig, save_weights, weights_of
from seq2edge_export.loaders.state_dict import check_archive
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.training.config import LABELS, TEACHER, Job, ModelSettings, TokenizerSettings, TrainingSettings
from seq2edge_export.training.learner import Learner
from seq2edge_export.training.report import Evaluation, best_of
from seq2edge_export.training.tokenizer import MODEL_NAMES, TOKENS

STATE_KEYS = {"progress", "model", "optimizer", "settings"}
# Settings that a resumed run may change, as they do not affect the updates made so far.
CHANGEABLE = {
    *("max_steps", "cooldown_steps", "evaluate_every", "save_every", "patience"),
    *("device", "precision", "threads", "store"),
}
# Files that a run writes before its first state. A folder with no other files is from a run that was killed then.
INITIAL_FILES = {"training", LABELS, TEACHER, checkpoint.CONFIG, checkpoint.GENERATION, *MODEL_NAMES}


@dataclass
class TrainingProgress:
    """How far a run is, as saved in its state."""

    step: int = 0
    epoch: int = 0
    position: int = 0  # batches of this epoch that are done
    seconds: float = 0.0
    loss_sum: float = 0.0  # since the last evaluation
    loss_tokens: int = 0
    history: list[Evaluation] = field(default_factory=list)
    best_step: int = 0  # of the evaluation whose weights are the checkpoint

    @property
    def best(self) -> Evaluation | None:
        return next((row for row in self.history if row.step == self.best_step), None)

    @property
    def evaluations_since_best(self) -> int:
        return sum(row.step > self.best_step for row in self.history)


def save_state(path: Path, progress: TrainingProgress, learner: Learner, settings: dict[str, Any]) -> None:
    """Write model, optimizers and progress; the file appears only when it is complete."""
    state = {
        "progress": asdict(progress),
        "model": learner.model.state_dict(),
        "optimizer": [optimizer.state_dict() for optimizer in learner.optimizers],
        "settings": settings,
    }
    with replaced_file(path) as new, new.open("wb") as file:  # opened here to keep the error of the system
        torch.save(state, file)


def read_state(path: Path) -> dict[str, Any]:
    check_archive(path)
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"there is nothing to resume: {path} does not exist; omit --resume") from None
    except Exception as error:  # torch.load raises many types
        raise CheckpointError(f"{path} is not a training state ({type(error).__name__})") from None
    missing = STATE_KEYS - state.keys() if isinstance(state, dict) else STATE_KEYS
    if missing:
        raise CheckpointError(f"{path} is not a training state: it lacks {', '.join(sorted(missing))}")
    return state


def restore(state: dict[str, Any], learner: Learner) -> TrainingProgress:
    """Restore a saved state and return its progress."""
    learner.model.load_state_dict(state["model"])
    saved = state["optimizer"]
    for optimizer, values in zip(learner.optimizers, saved if isinstance(saved, list) else [saved], strict=True):
        optimizer.load_state_dict(values)  # version 0.1.0 had only one, which was not in a list
    values = dict(state["progress"])
    history = values["history"] = [Evaluation(**row) for row in values["history"]]
    if history and "best_step" not in values:  # a state of version 0.1.0 or before: it always took the highest BLEU
        values["best_step"] = best_of(history, noise=0.0).step
    return TrainingProgress(**values)


def can_resume(job: Job, *, resume: bool) -> bool:
    """Return whether there is a run to resume; refuse a folder that contains something else."""
    if resume and job.state.exists():
        return True
    if job.output.is_dir() and not _is_unused(job.output):
        problem = (
            "contains no training to resume" if resume else "is not empty; use --resume to continue a training in it"
        )
        raise UsageError(f"{job.output} {problem}, or another --output to start one")
    if job.output.exists() and not job.output.is_dir():
        raise UsageError(f"{job.output} is a file, but --output must be a folder")
    return False


def adopt_initial(job: Job) -> Job:
    """Return the job with what the checkpoint that it starts from determines; refuse options that contradict it."""
    if job.initial is None:
        return job
    config = checkpoint.read_config(job.initial)
    given, defaults = asdict(job.tokenizer), asdict(TokenizerSettings())
    names = [name for name in given if given[name] != defaults[name]]
    known = asdict(config.architecture)
    model = {field.name: known[field.name] for field in fields(ModelSettings)}
    given, defaults = asdict(job.model), asdict(ModelSettings())
    names += [name for name in given if given[name] not in (defaults[name], model[name])]
    if names:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        raise UsageError(f"{job.initial} determines vocabulary and model; omit {options}, or --from")
    tokenizer = replace(
        job.tokenizer, vocabulary=known["source_vocabulary"], joint_vocabulary=known["joint_vocabulary"]
    )
    adopted = replace(
        job,
        tokenizer=tokenizer,
        model=ModelSettings(**model),
        source_language=job.source_language or config.source_language,
        target_language=job.target_language or config.target_language,
        license=job.license or config.license,
        attribution=job.attribution or config.attribution,
    )
    if (adopted.architecture, TOKENS) != (config.architecture, config.tokens):
        raise UsageError(f"{job.initial} is not a checkpoint of seq2edge train, which alone --from can start from")
    return adopted


def state_to_resume(job: Job) -> dict[str, Any]:
    """Return the last saved state after checking that the job matches it."""
    state = read_state(job.state)
    defaults = {**asdict(TokenizerSettings()), **asdict(ModelSettings()), **asdict(TrainingSettings())}
    old, new = {**defaults, **state["settings"]}, job.settings
    names = [name for name in new if new[name] != old[name] and name not in CHANGEABLE]
    if names:
        changes = "; ".join(f"--{name.replace('_', '-')} was {old[name]} and is {new[name]}" for name in names)
        raise UsageError(f"a resumed run must keep its settings, but {changes}")
    step, max_steps = state["progress"]["step"], job.training.max_steps
    if step > max_steps:
        raise UsageError(f"--max-steps is {max_steps}, but {step} updates are already done; use a larger number")
    return state


def config_to_resume(job: Job) -> CheckpointConfig:
    """Return the config of the checkpoint, updated with license and attribution of the job if it has any."""
    config = checkpoint.read_config(job.output)
    for new, old in ((job.source_language, config.source_language), (job.target_language, config.target_language)):
        if new not in ("", old):
            raise UsageError(f"a resumed run must keep its languages, but {old!r} became {new!r}")
    updated = replace(config, license=job.license or config.license, attribution=job.attribution or config.attribution)
    if updated != config:
        with saving(job.output), replaced_file(job.output / checkpoint.CONFIG) as file:
            file.write_text(json.dumps(asdict(updated), indent=2) + "\n", encoding="utf-8")
    return updated


def clean_up(job: Job, *, step: int) -> None:
    """Delete incomplete files of a killed run, and weights that it saved after its last state."""
    with saving(job.output):
        for path in [*job.output.iterdir(), *job.work.iterdir()]:
            if _is_incomplete(path):
                path.unlink()
        delete_weights_after(job.work, step)


def _is_unused(output: Path) -> bool:
    """Return whether the folder is empty, or contains only files of a run that was killed before its first state."""
    names = {path.name for path in output.iterdir() if not _is_incomplete(path)}
    return names <= INITIAL_FILES and not (output / "training" / "state.pt").exists()


def _is_incomplete(path: Path) -> bool:
    """Return whether the file has the temporary name that we, or safetensors, use until it is complete."""
    ours = path.name.startswith(".") and path.suffix == ".new"
    return path.is_file() and (ours or path.name.startswith(".tmp"))


def save_recent_weights(folder: Path, model: Transformer, *, step: int, limit: int) -> list[Path]:
    """Save the weights of this step, delete the oldest, and return the remaining files."""
    save_weights(folder / f"weights-{step:08d}.safetensors", weights_of(model))
    files = saved_weights(folder)
    for path in files[:-limit]:
        path.unlink()
    return files[-limit:]


def delete_weights_after(folder: Path, step: int) -> None:
    """Delete weights that a killed run saved after its last state."""
    for path in saved_weights(folder):
        if int(path.stem.removeprefix("weights-")) > step:
            path.unlink()


def saved_weights(folder: Path) -> list[Path]:
    """Return the files with weights, oldest first."""
    return sorted(folder.glob("weights-*.safetensors"))


def load_average(files: list[Path], model: Transformer, *, dtype: torch.dtype = torch.float32) -> None:
    """Load the mean of saved weights into ``model``, computed in double precision and rounded to ``dtype``."""
    sums = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in weights_of(model).items()}
    for path in files:
        for name, tensor in load_file(path).items():
            sums[name] += tensor.to(sums[name].device, torch.float64)
    with torch.no_grad():
        for name, parameter in weights_of(model).items():
            parameter.copy_((sums[name] / len(files)).to(dtype))


@contextmanager
def saving(folder: Path) -> Iterator[None]:
    """Raise ``DataError`` if a file cannot be written, because of a full disk or missing permissions.

    Use it around writing only, as it also catches the ``RuntimeError`` in which PyTorch wraps the error of the system.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        raise DataError(
            f"{folder} cannot be written ({_reason(error)}); what was saved before is intact: free some space or use "
            "another --output, and continue with --resume if the training had begun"
        ) from None


def _reason(error: BaseException) -> str:
    """Return the error of the system, which a library may have wrapped."""
    cause = error.__context__ if isinstance(error.__context__, OSError) else error
    return str(getattr(cause, "strerror", None) or cause).lower()
