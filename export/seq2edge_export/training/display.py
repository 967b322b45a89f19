"""What the command line shows of a training: lines, and on a terminal a bar below them; needs rich."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from seq2edge_export.training.history import Measurement

SMOOTHING = 0.95  # weight of what the bar showed before, so that its numbers can be read


class Display:
    """An observer for people; in a pipe the lines alone appear."""

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

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def step(self, step: int, *, loss: float, tokens_per_second: float) -> None:
        if self.task is None:  # a resumed run begins where it was, so that the time left is that of the rest
            self.loss, self.speed = loss, tokens_per_second
            self.task = self.bar.add_task("", total=self.steps, completed=step, loss=loss, speed=tokens_per_second)
        self.loss += (1 - SMOOTHING) * (loss - self.loss)
        self.speed += (1 - SMOOTHING) * (tokens_per_second - self.speed)
        self.bar.update(self.task, completed=step, loss=self.loss, speed=self.speed)

    def measured(self, row: Measurement, *, best: bool) -> None:
        text = f"update {row.step:,} (epoch {row.epoch:.1f}): loss {row.train_loss:.3f}, dev loss {row.dev_loss:.3f}"
        self.say(f"{text}, BLEU {row.dev_bleu:.2f}{', the best so far' if best else ''}")
