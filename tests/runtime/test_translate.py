"""The embedded model translates, in Python and on the command line."""

import subprocess
import sys
from pathlib import Path

import pytest

from seq2edge import Translator
from seq2edge.errors import DataError, UsageError

SENTENCES = ["Good morning.", "", "I have a dog.", "   ", "Where is Tom?"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(threads=1)


def command(*arguments: object, stdin: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    program = [sys.executable, "-m", "seq2edge", *map(str, arguments)]
    return subprocess.run(program, input=stdin, capture_output=True, check=False, cwd=cwd)


def test_it_translates(translator: Translator) -> None:
    assert translator.translate(["Good morning."])[0].text.startswith("Guten Morgen")


def test_results_are_in_order_and_empty_lines_stay_empty(translator: Translator) -> None:
    results = translator.translate(SENTENCES)
    assert [bool(result.text) for result in results] == [True, False, True, False, True]
    for text, result in zip(SENTENCES, results, strict=True):
        assert translator.translate([text])[0].text == result.text


def test_greedy_and_beam_search_give_scores(translator: Translator) -> None:
    for num_beams in (1, 4):
        result = translator.translate(["I have a dog."], num_beams=num_beams)[0]
        assert result.tokens[-1] == translator.bundle.manifest.tokens.eos
        assert result.score < 0


def test_no_text_gives_no_result(translator: Translator) -> None:
    assert translator.translate([]) == []


def test_one_string_is_not_a_list_of_texts(translator: Translator) -> None:
    with pytest.raises(UsageError, match="a list of texts"):
        translator.translate("Good morning.")


@pytest.mark.parametrize("options", [{"num_beams": 0}, {"max_new_tokens": 0}, {"max_new_tokens": 10_000}, {"beams": 4}])
def test_options_that_cannot_be_are_refused(translator: Translator, options: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        translator.translate(["Good morning."], **options)


def test_a_text_beyond_the_positions_is_refused_by_its_number(translator: Translator) -> None:
    with pytest.raises(DataError, match="text 2 has"):
        translator.translate(["Good morning.", "dog " * 1000])


def test_the_command_translates_arguments() -> None:
    done = command("translate", "Good morning.", "I have a dog.")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().splitlines()[0].startswith("Guten Morgen")
    assert len(done.stdout.splitlines()) == 2


def test_the_command_translates_standard_input_line_by_line() -> None:
    done = command("translate", stdin=b"Good morning.\r\n\nI have a dog.")
    lines = done.stdout.decode().splitlines()
    assert [bool(line) for line in lines] == [True, False, True]
    assert lines[0].startswith("Guten Morgen")


def test_the_command_translates_a_file_into_a_file(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("Good morning.\nI have a dog.\n", encoding="utf-8")
    done = command("translate", "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()[0].startswith("Guten Morgen")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_a_line_that_is_not_utf8_is_named_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"Good morning.\n\xff\xfe\n")
    done = command("translate", "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    assert done.returncode == 2
    assert b"line 2 of" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "nowhere", "Hello."],
        ["-i", "nowhere.txt"],
        ["-o", "no/such/folder/out.txt", "Hello."],
        ["--num-beams", "0", "Hello."],
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(arguments: list[str], tmp_path: Path) -> None:
    done = command("translate", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.decode().startswith("Error: ")
    assert done.stderr.count(b"\n") == 1
    assert not list(tmp_path.iterdir())


def test_inspect_prints_what_the_manifest_says(translator: Translator) -> None:
    done = command("inspect")
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert f"{translator.bundle.manifest.parameters:,}" in text
    assert "CC-BY-2.0-FR" in text
    assert "tatoeba.org" in text
