"""Report a training: progress on the terminal, learning curves and the model card."""

import csv
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from seq2edge import __version__
from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.config.architecture import count_parameters
from seq2edge_export import checkpoint
from seq2edge_export.checkpoint import CheckpointConfig
from seq2edge_export.training.config import Job

SMOOTHING = 0.95  # of the moving averages that the progress bar shows
CARD = """\
# {title}

An encoder-decoder Transformer of {parameters:,} parameters, trained with `seq2edge train` {version}.

- Licence: {license}
- Attribution: {attribution}

## Quality

BLEU {best.dev_bleu:.2f} (sacreBLEU, tokenizer {settings[bleu_tokenizer]}, cased, greedy search) and a loss of \
{best.dev_loss:.4f} nats a token on {pairs[dev]:,} pairs of `{dev}`, measured after {best.step:,} updates \
({best.epoch:.1f} epochs, {hours:.1f} hours). The weights are the average of the last {settings[average]} that were \
measured, or of all if there were fewer. `training/log.csv` and `training/curves.png` show the way there.

## Recipe

{pairs[train]:,} pairs of {train}, and these settings:

| setting | value |
|---|---|
{recipe}
"""


@dataclass(frozen=True)
class Evaluation:
    """One row of ``log.csv``."""

    step: int
    epoch: float
    seconds: float
    learning_rate: float
    train_loss: float
    dev_loss: float
    dev_bleu: float


def best_of(history: list[Evaluation], *, noise: float) -> Evaluation:
    """Return the evaluation with the highest BLEU; below ``noise`` BLEU is the same as 0, and the loss decides."""
    return max(history, key=lambda row: (row.dev_bleu if row.dev_bleu >= noise else 0.0, -row.dev_loss))


def write_table(history: list[Evaluation], path: Path) -> None:
    with replaced_file(path) as new, new.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Evaluation)], lineterminator="\n")
        table.writeheader()
        for row in history:
            table.writerow({key: round(value, 6) for key, value in asdict(row).items()})


def draw_curves(history: list[Evaluation], path: Path) -> None:
    """Plot losses on the left axis and BLEU on the right axis."""
    from matplotlib.figure import Figure

    steps = [row.step for row in history]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    losses = figure.subplots()
    losses.plot(
        steps, [row.train_loss for row in history], marker=".", color="tab:blue", alpha=0.5, label="training loss"
    )
    losses.plot(steps, [row.dev_loss for row in history], marker=".", color="tab:blue", label="dev loss")
    losses.set_xlabel("updates")
    losses.set_ylabel("nats per token")
    bleu = losses.twinx()
    bleu.plot(steps, [row.dev_bleu for row in history], marker=".", color="tab:orange", label="dev BLEU (greedy)")
    bleu.set_ylabel("BLEU")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    with replaced_file(path) as new:
        figure.savefig(new, format="png", dpi=120, metadata={"Software": None})


def _recipe(job: Job) -> dict[str, Any]:
    """Return the settings of a run; the checkpoint that it starts from stands for those of vocabulary and model."""
    return job.settings if job.initial is None else {"from": job.initial.name, **asdict(job.training)}


def write_card(job: Job, config: CheckpointConfig, best: Evaluation, *, pairs: dict[str, int]) -> None:
    """Write the model card of the checkpoint with the evaluation ``best``."""
    card = CARD.format(
        title=_title(config),
        parameters=count_parameters(config.architecture),
        version=__version__,
        license=config.license or "not stated",
        attribution=config.attribution or "not stated",
        best=best,
        hours=best.seconds / 3600,
        settings=job.settings,
        pairs=pairs,
        train=", ".join(_file(*file) for file in job.train),
        dev=job.dev.name,
        recipe="\n".join(_row(name, value) for name, value in _recipe(job).items()),
    )
    with replaced_file(job.output / checkpoint.CARD) as new:
        new.write_text(card, encoding="utf-8")


def _file(path: Path, weight: float) -> str:
    return f"`{path.name}`" + (f" ({weight:g} times)" if weight != 1 else "")


def _title(config: CheckpointConfig) -> str:
    languages = [config.source_language, config.target_language]
    return f"Translation from {languages[0]} to {languages[1]}" if all(languages) else "Translation model"


def _row(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"| `--{'' if value else 'no-'}{name.replace('_', '-')}` | |"
    return f"| `--{name.replace('_', '-')}` | {value} |"


class Display:
    """Show messages, and on a terminal also a progress bar."""

    def __init__(self, *, steps: int, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.steps = steps
        self.task: TaskID | None = None
        self.loss, self.speed = 0.0, 0.0
        self.bar = Progress(
            MofNCompleteColumn(),
            TextColumn("updates"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]:.3f}"),
            TextColumn("{task.fields[speed]:,.0f} tokens/s"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self.console,
            disable=not self.console.is_terminal,
        )

    def __enter__(self) -> "Display":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def message(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def step(self, step: int, *, loss: float, tokens_per_second: float) -> None:
        if self.task is None:  # for a resumed run the remaining time counts from here
            self.loss, self.speed = loss, tokens_per_second
            self.task = self.bar.add_task("", total=self.steps, completed=step, loss=loss, speed=tokens_per_second)
        self.loss += (1 - SMOOTHING) * (loss - self.loss)
        self.speed += (1 - SMOOTHING) * (tokens_per_second - self.speed)
        self.bar.update(self.task, completed=step, loss=self.loss, speed=self.speed)

    def evaluated(self, row: Evaluation, *, best: bool) -> None:
        text = f"update {row.step:,} (epoch {row.epoch:.1f}): loss {row.train_loss:.3f}, dev loss {row.dev_loss:.3f}"
        self.message(f"{text}, BLEU {row.dev_bleu:.2f}{', the best so far' if best else ''}")
