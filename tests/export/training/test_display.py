import io

from rich.console import Console

from seq2edge_export.training.report import Display, Evaluation

ROW = Evaluation(
    step=1500, epoch=2.5, seconds=60.0, learning_rate=0.001, train_loss=3.25, dev_loss=3.125, dev_bleu=17.5
)
LINE = "update 1,500 (epoch 2.5): loss 3.250, dev loss 3.125, BLEU 17.50, the best so far"


def shown(*, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    with Display(steps=2000, console=console) as display:
        display.message("a line [with] brackets, which is " + "long " * 40)
        display.step(1499, loss=3.0, tokens_per_second=12_345.0)
        display.step(1500, loss=3.0, tokens_per_second=12_345.0)
        display.evaluated(ROW, best=True)
    return str(console.file.getvalue())


def test_a_terminal_shows_a_bar_with_loss_speed_and_time_left_below_the_lines() -> None:
    text = shown(terminal=True)
    assert LINE in text
    for part in ("1500/2000", "loss 3.000", "12,345 tokens/s", "left"):
        assert part in text


def test_a_pipe_gets_only_the_lines_unwrapped() -> None:
    lines = shown(terminal=False).splitlines()
    assert lines == ["a line [with] brackets, which is " + "long " * 40, LINE]
