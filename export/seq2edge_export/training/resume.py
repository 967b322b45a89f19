"""Find out whether an output folder holds a run, and whether a job may go on with it; needs torch."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from seq2edge.errors import UsageError
from seq2edge.files import replaced_file
from seq2edge_export import checkpoint
from seq2edge_export.checkpoint import CheckpointConfig
from seq2edge_export.training.average import forget_weights_after
from seq2edge_export.training.job import Job
from seq2edge_export.training.saving import saving
from seq2edge_export.training.settings import ModelSettings, TokenizerSettings, TrainingSettings
from seq2edge_export.training.state import read_state
from seq2edge_export.training.tokenizer import MODEL_NAMES

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
