import csv
from pathlib import Path

from seq2edge_export.training.checkpointing import TrainingProgress
from seq2edge_export.training.report import Evaluation, best_of, draw_curves, write_table


def row(step: int, *, bleu: float, loss: float) -> Evaluation:
    return Evaluation(
        step=step, epoch=0.5, seconds=1.0, learning_rate=0.1, train_loss=loss, dev_loss=loss, dev_bleu=bleu
    )


def test_the_best_evaluation_has_the_highest_bleu_then_the_lowest_loss() -> None:
    history = [row(1, bleu=0, loss=5), row(2, bleu=0, loss=4), row(3, bleu=0, loss=4.5)]
    assert best_of(history, noise=1).step == 2
    assert best_of([*history, row(4, bleu=1, loss=9)], noise=1).step == 4


def test_a_bleu_that_is_noise_does_not_win_over_a_lower_loss() -> None:
    history = [row(1, bleu=0.43, loss=6.1), row(2, bleu=0.33, loss=5.6)]
    assert best_of(history, noise=2).step == 2
    assert best_of([*history, row(3, bleu=2, loss=5.7)], noise=2).step == 3


def test_evaluations_since_the_best_are_counted() -> None:
    rows = [row(1, bleu=2, loss=5), row(2, bleu=1, loss=4), row(3, bleu=1, loss=3)]
    assert TrainingProgress().evaluations_since_best == 0
    assert TrainingProgress(history=rows[:1], best_step=1).evaluations_since_best == 0
    assert TrainingProgress(history=rows, best_step=1).evaluations_since_best == 2


def test_the_table_has_one_row_per_evaluation(tmp_path: Path) -> None:
    write_table([row(1, bleu=1, loss=5), row(2, bleu=2, loss=4)], tmp_path / "log.csv")
    with (tmp_path / "log.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(int(line["step"]), float(line["dev_bleu"])) for line in rows] == [(1, 1.0), (2, 2.0)]


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    from matplotlib.image import imread

    draw_curves([row(1, bleu=1, loss=5)], tmp_path / "curves.png")
    height, width, _ = imread(tmp_path / "curves.png").shape
    assert width > height > 400
