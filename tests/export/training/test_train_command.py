import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

from seq2edge.cli.main import main
from seq2edge_export.training.config import ModelSettings, TokenizerSettings, TrainingSettings
from seq2edge_export.training.learner import Learner

Arguments = Callable[..., list[str]]


def test_the_result_goes_to_stdout_and_messages_to_stderr(tmp_path: Path, arguments: Arguments) -> None:
    result = CliRunner().invoke(main, arguments(tmp_path / "out", max_steps=4))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{tmp_path / 'out'}: BLEU ")
    assert result.stdout.endswith("after 4 updates\n")
    assert [line.split()[0] for line in result.stderr.splitlines()][-2:] == ["training", "update"]
    assert "tokens/s" not in result.stderr


def test_several_files_with_weights_and_noise(tmp_path: Path, arguments: Arguments) -> None:
    command = arguments(tmp_path / "out", max_steps=4, noise=0.5, vocabulary=340)
    more = tmp_path / "more.tsv"
    more.write_text("the old man.\teht nam dlo.\n" * 10, encoding="utf-8")
    result = CliRunner().invoke(main, [*command, f"--train={more}@3"])
    assert result.exit_code == 0, result.output
    [first, second, _, noisy] = [int(found) for found in re.findall(r": ([\d,]+) pairs", result.stderr)]
    assert second == 10
    assert first + second < noisy <= 1.5 * (first + second)  # some noise does not apply to some pairs
    assert "`more.tsv` (3 times)" in (tmp_path / "out/README.md").read_text(encoding="utf-8")


def test_every_setting_is_an_option_under_a_heading() -> None:
    text = CliRunner().invoke(main, ["train", "--help"]).stdout
    headings = [text.index(f"\n{heading}:\n") for heading in ("Options", "Vocabulary", "Model", "Training")]
    assert headings == sorted(headings)
    for cls in (TokenizerSettings, ModelSettings, TrainingSettings):
        for field in fields(cls):
            assert f"--{field.name.replace('_', '-')}" in text


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch_tokens": 0}, "Error: --batch-tokens is 0, but must be at least 1\n"),
        ({"heads": 3}, "Error: width 16 is not divisible by 3 heads\n"),
        ({"train": "missing.tsv"}, "Error: missing.tsv cannot be read: No such file or directory\n"),
    ],
)
def test_an_invalid_option_is_one_sentence_with_exit_code_2_and_leaves_nothing(
    tmp_path: Path, arguments: Arguments, changes: dict[str, object], sentence: str
) -> None:
    result = CliRunner().invoke(main, arguments(tmp_path / "out", **changes))
    assert result.exit_code == 2
    assert result.stderr.endswith(sentence)
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_interrupted_run_prints_how_to_continue(
    tmp_path: Path, arguments: Arguments, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Learner.update

    def interrupted(self: Learner, batches: list[object], *, step: int) -> object:
        if step == 5:
            raise KeyboardInterrupt
        return update(self, batches, step=step)  # type: ignore[arg-type]

    monkeypatch.setattr(Learner, "update", interrupted)
    result = CliRunner().invoke(main, arguments(tmp_path / "out"))
    assert result.exit_code == 130
    assert result.stderr.endswith("interrupted: repeat the command with --resume to continue\n")

    monkeypatch.setattr(Learner, "update", update)
    result = CliRunner().invoke(main, [*arguments(tmp_path / "out"), "--resume"])
    assert "resuming after 4 updates" in result.stderr
    assert "after 12 updates" in result.stdout


def test_a_run_interrupted_before_its_first_state_prints_that(
    tmp_path: Path, arguments: Arguments, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("seq2edge_export.training.loop.train_tokenizer", interrupted)
    result = CliRunner().invoke(main, arguments(tmp_path / "out"))
    assert result.exit_code == 130
    assert result.stderr.endswith("interrupted: nothing was saved yet\n")
