"""The default model translates, in Python and on the command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seq2edge import Translator
from seq2edge.errors import UsageError

SENTENCES = ["Good morning.", "", "I have a dog.", "   ", "Where is Tom?"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(threads=1)


def command(*arguments: object, stdin: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    program = [sys.executable, "-m", "seq2edge", *map(str, arguments)]
    return subprocess.run(program, input=stdin, capture_output=True, check=False, cwd=cwd)


def test_it_translates(translator: Translator) -> None:
    assert translator.translate(["Good morning."])[0].text.startswith("Bom dia")


def test_no_sentence_of_a_text_is_lost(translator: Translator) -> None:
    done = command("translate", "--format", "tsv", "Good morning. See you tomorrow.")
    assert done.stdout.decode().startswith(f"{translator('Good morning.')} {translator('See you tomorrow.')}\t")
    assert done.stdout.decode().rstrip().endswith("\thas 2 sentences")
    assert done.stderr == b""


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


@pytest.mark.parametrize("text", ["\u200b", "\t", "\x01"])
def test_invisible_text_stays_empty(translator: Translator, text: str) -> None:
    assert translator.translate([text])[0].text == ""


def test_alternatives_are_returned_on_request(translator: Translator) -> None:
    best = translator.translate(["I have a dog."], num_beams=4, num_return_sequences=3)[0]
    assert len(best.alternatives) == 2
    assert best.score >= best.alternatives[0].score >= best.alternatives[1].score


def test_a_truncated_translation_gets_a_warning(translator: Translator) -> None:
    assert not translator.translate(["Where is the nearest train station?"], max_new_tokens=2)[0].ended
    done = command("translate", "--max-new-tokens", "2", "Where is the nearest train station?")
    assert b"1 of 1 translations were cut" in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 0},
        {"max_new_tokens": 0},
        {"max_new_tokens": 10_000},
        {"beams": 4},
        {"max_length": 1, "max_new_tokens": None},
        {"forced_bos_token_id": 99_999},
    ],
)
def test_invalid_options_are_refused(translator: Translator, options: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        translator.translate(["Good morning."], **options)


def test_the_command_translates_arguments() -> None:
    done = command("translate", "Good morning.", "I have a dog.")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().splitlines()[0].startswith("Bom dia")
    assert len(done.stdout.splitlines()) == 2


def test_the_command_translates_standard_input_line_by_line() -> None:
    done = command("translate", stdin=b"Good morning.\r\n\nI have a dog.")
    lines = done.stdout.decode().splitlines()
    assert [bool(line) for line in lines] == [True, False, True]
    assert lines[0].startswith("Bom dia")


def test_the_command_translates_a_file_into_a_file(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("Good morning.\nI have a dog.\n", encoding="utf-8")
    done = command("translate", "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()[0].startswith("Bom dia")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_a_line_that_is_not_utf8_is_named_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"\xff\xfe\nGood morning.\n")
    done = command("translate", "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    assert done.returncode == 2
    assert b"line 1 of" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        done = command("translate", "-o", pipe, "Good morning.")
        if done.returncode:
            reader.kill()  # it would wait forever for a writer
        assert done.returncode == 0, done.stderr
        assert reader.communicate()[0].decode().startswith("Bom dia")
    assert pipe.is_fifo()


def test_the_number_of_a_line_counts_from_the_beginning_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("Hi.\n" * 520 + "dog " * 1000 + "\n", encoding="utf-8")
    done = command("translate", "--num-beams", "1", "--long", "error", "-i", tmp_path / "in.txt")
    assert done.returncode == 2
    assert b"text 521 has" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["-i", "nowhere.txt", "Hello."],
        ["-o", ".", "Hello."],
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


def test_inspect_prints_the_manifest(translator: Translator) -> None:
    done = command("inspect")
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert f"{translator.bundle.manifest.parameters:,}" in text
    assert "CC-BY-2.0-FR" in text
    assert "tatoeba.org" in text
