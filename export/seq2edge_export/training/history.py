"""The learning curves as a table and a picture; needs matplotlib for the picture."""

import csv
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from seq2edge.files import replaced_file


@dataclass(frozen=True)
class Measurement:
    """One row of ``log.csv``."""

    step: int
    epoch: float
    seconds: float
    learning_rate: float
    train_loss: float
    dev_loss: float
    dev_bleu: float


def best_of(history: list[Measurement]) -> Measurement:
    """The highest BLEU; the lower loss among equals, as when a tiny model has no BLEU yet."""
    return max(history, key=lambda row: (row.dev_bleu, -row.dev_loss))


def since_best(history: list[Measurement]) -> int:
    """How many measurements came after the best one."""
    return len(history) - 1 - history.index(best_of(history)) if history else 0


def write_table(history: list[Measurement], path: Path) -> None:
    with replaced_file(path) as new, new.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Measurement)], lineterminator="\n")
        table.writeheader()
        for row in history:
            table.writerow({key: round(value, 6) for key, value in asdict(row).items()})


def draw_curves(history: list[Measurement], path: Path) -> None:
    """Losses on the left axis, BLEU on the right one."""
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
