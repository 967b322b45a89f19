"""The command line names its own commands and options, refuses what would be lost or ignored, and shows examples."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from seq2edge.cli.click_options import as_options
from seq2edge.cli.main import COMMANDS, main


def run(*arguments: object, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)], input=stdin)


def error(*arguments: object, stdin: bytes = b"") -> str:
    done = run(*arguments, stdin=stdin)
    assert done.exit_code == 2, done.output
    return done.stderr.splitlines()[-1]


def test_a_similar_command_is_suggested() -> None:
    assert error("transalte", "Hello.") == "Error: No such command 'transalte'. Did you mean 'translate'?"
    assert error("xyz") == "Error: No such command 'xyz'."


def test_a_text_that_begins_with_a_dash_gets_a_hint() -> None:
    assert error("translate", "-5 degrees").endswith("Write -- before texts that begin with a dash.")
    assert run("translate", "--", "-5 degrees").exit_code == 0
    assert "Write --" not in error("translate", "--num-beans", "3", "Hello.")  # an option was meant
    assert "Write --" not in error("score", "-5")  # it has no texts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num-beams", "0"], "--num-beams is 0, but must be at least 1"),
        (["--temperature", "0"], "--temperature is 0.0, but must be at least 0.0001"),
        (
            ["--num-beams", "2", "--num-return-sequences", "3"],
            "--num-return-sequences is 3, but must be at most --num-beams, which is 2",
        ),
        (["--attention", "x"], "--attention is 'x', but must be 'all', or layers and heads as in '1.3,2.5'"),
        (["--provider-option", "foo=1"], "the CPU provider has no options, but got foo: leave them out, or name"),
    ],
)
def test_errors_speak_of_options(arguments: list[str], message: str) -> None:
    assert error("translate", *arguments, "Hello.").startswith(f"Error: {message}")


def test_only_names_of_options_are_rewritten() -> None:
    flags = ["--num-beams", "--errors", "--input", "--seed"]
    for text in ("/tmp/num_beams.txt is a folder", "the errors is 3", "the key 'num_beams' is 3", "use --num-beams"):
        assert as_options(text, flags) == text
    changed = as_options("another job (num_beams was 1, input was 'a', seed was 1); use errors=\"replace\"", flags)
    assert changed == "another job (--num-beams was 1, --input was 'a', --seed was 1); use --errors replace"


def test_text_that_is_not_utf8_gets_the_advice_to_replace_it(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"\xff\n")
    advice = "is not UTF-8: convert it, or use --errors replace"
    assert error("translate", "-i", tmp_path / "in.txt") == f"Error: line 1 of {tmp_path / 'in.txt'} {advice}"
    assert error("score", "-i", tmp_path / "in.txt") == f"Error: line 1 of {tmp_path / 'in.txt'} {advice}"
    assert error("translate", "Hello.", "\udcff") == f"Error: text 2 {advice}"
    assert error("bench", "-i", tmp_path / "in.txt").endswith("is not UTF-8: convert it")  # which has no such option
    assert run("translate", "--errors", "replace", "Hello \udcff").exit_code == 0


class TestExistingOutput:
    @pytest.mark.parametrize(
        "arguments", [["translate", "Hello."], ["translate", "-i", "in.tsv"], ["score", "-i", "in.tsv"]]
    )
    def test_it_is_replaced_only_if_forced(
        self, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("in.tsv").write_text("Hello.\tHallo.\n", encoding="utf-8")
        Path("out.txt").write_text("precious", encoding="utf-8")
        assert error(*arguments, "-o", "out.txt") == "Error: out.txt exists already; use --force to replace it"
        assert Path("out.txt").read_text(encoding="utf-8") == "precious"
        assert run(*arguments, "-o", "out.txt", "--force").exit_code == 0
        assert Path("out.txt").read_text(encoding="utf-8") != "precious"

    def test_an_empty_file_is_replaced(self, tmp_path: Path) -> None:
        (tmp_path / "out.txt").touch()
        assert run("translate", "Hello.", "-o", tmp_path / "out.txt").exit_code == 0

    def test_a_run_may_be_resumed(self, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_text("Hello.\n", encoding="utf-8")
        for _ in range(2):
            assert run("translate", "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt", "--resume").exit_code == 0


def test_without_matplotlib_nothing_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = error("translate", "-m", tmp_path / "nowhere", "--show-attention", tmp_path / "a.png", "Hello.")
    assert message == "Error: this needs matplotlib, which is not installed: run  pip install 'seq2edge[plot]'"


@pytest.mark.parametrize("name", ["translate", "score", "bench", "export", "quantize", "verify", "train", "recipe"])
def test_help_has_groups_and_examples(name: str) -> None:
    pytest.importorskip("torch" if COMMANDS[name].module.startswith("seq2edge_export") else "click")
    text = run(name, "--help").stdout
    assert "\nExamples:\n  # " in text
    assert f"\n  seq2edge {name} " in text.partition("Examples:")[2]
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_command_in_the_help_has_every_option_once() -> None:
    options = [line.split()[0] for line in run("translate", "--help").stdout.splitlines() if line.startswith("  --")]
    assert len(options) == len(set(options)) > 40
