"""``seq2edge translate`` and ``seq2edge score``: formats, files, pipes and terminals, on the default model."""

import json
import os
import pty
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from seq2edge import Translator

SEQ2EDGE = [sys.executable, "-m", "seq2edge"]
ONE_THREAD = ("--threads", 1)  # as the translator below: the same computation, to the last bit


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(threads=1)


def command(*arguments: object, stdin: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*SEQ2EDGE, *map(str, arguments)], input=stdin, capture_output=True, check=False, cwd=cwd)


class TestFormats:
    def test_jsonl_has_all_fields(self, translator: Translator) -> None:
        done = command(
            "translate", *ONE_THREAD, "--format", "jsonl", "--n-best", "2", "--alignment", "I have a dog.", ""
        )
        first, second = map(json.loads, done.stdout.decode().splitlines())
        [expected] = translator.translate(["I have a dog."], num_return_sequences=2, attention="all")
        assert first["text"] == expected.text
        assert first["tokens"] == list(expected.tokens)
        assert first["token_scores"] == list(expected.token_scores)
        assert first["alignment"] == expected.attention.moses
        assert [one["text"] for one in first["alternatives"]] == [expected.alternatives[0].text]
        assert first["notes"] == []
        assert second["text"] == ""

    def test_tsv_has_scores_and_alternatives_in_columns(self, translator: Translator) -> None:
        options = ("--format", "tsv", "--n-best", "2", "--num-beams", "2")
        done = command("translate", *ONE_THREAD, *options, "I have a dog.")
        [expected] = translator.translate(["I have a dog."], num_beams=2, num_return_sequences=2)
        text, score, notes, other, other_score = done.stdout.decode().removesuffix("\n").split("\t")
        assert (text, other, notes) == (expected.text, expected.alternatives[0].text, "")
        assert (score, other_score) == (f"{expected.score:.4f}", f"{expected.alternatives[0].score:.4f}")

    def test_the_n_best_list_has_the_format_of_moses(self) -> None:
        done = command("translate", "--n-best", "3", "I have a dog.", "Good morning.")
        rows = [line.split(" ||| ") for line in done.stdout.decode().splitlines()]
        assert [row[0] for row in rows] == ["0"] * 3 + ["1"] * 3
        assert float(rows[0][2]) >= float(rows[1][2]) >= float(rows[2][2])

    def test_more_translations_than_beams_raise_the_beams(self) -> None:
        done = command("translate", "--n-best", "6", "I have a dog.")
        assert len(done.stdout.splitlines()) == 6, done.stderr

    def test_an_empty_line_has_its_columns(self, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_text("\nI have a dog.\n", encoding="utf-8")
        for more in (["-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt"], ["", "I have a dog."]):
            done = command("translate", "--n-best", "2", "--alignment", "--format", "tsv", *more)
            text = done.stdout.decode() or (tmp_path / "out.txt").read_text(encoding="utf-8")
            assert [len(line.split("\t")) for line in text.splitlines()] == [6, 6], done.stderr

    def test_the_alignment_follows_the_text(self) -> None:
        done = command("translate", "--alignment", "I have a dog.")
        _, alignment = done.stdout.decode().strip().split(" ||| ")
        assert all("-" in pair for pair in alignment.split())
        assert command("translate", "--alignment", "--attention", "", "I have a dog.").stdout == done.stdout
        assert b"|||" not in command("translate", "--attention", "", "I have a dog.").stdout


def test_every_option_of_the_search_is_an_option_of_the_command(translator: Translator) -> None:
    arguments = ["--num-beams", "3", "--length-penalty", "0.3", "--early-stopping", "never", "--suppress-tokens", "5,6"]
    done = command("translate", *arguments, "--bad-words-ids", "7", "--bad-words-ids", "8,9", "I have a dog.")
    [expected] = translator.translate(
        ["I have a dog."],
        num_beams=3,
        length_penalty=0.3,
        early_stopping="never",
        suppress_tokens=(5, 6),
        bad_words_ids=((7,), (8, 9)),
    )
    assert done.stdout.decode().strip() == expected.text


def test_samples_are_the_same_with_the_same_seed() -> None:
    arguments = ["translate", "--do-sample", "--num-beams", "1", "--seed", "3", "--n-best", "3", "I have a dog."]
    assert command(*arguments).stdout == command(*arguments).stdout != b""


def test_a_prefix_begins_every_translation() -> None:
    done = command("translate", "--prefix", "Nun", "I have a dog.", "Good morning.")
    assert all(line.startswith("Nun") for line in done.stdout.decode().splitlines())


class TestProblems:
    def test_they_are_summarized_in_a_warning(self) -> None:
        done = command("translate", "--max-new-tokens", "2", "I have a ☃ and a dog.", "I have a dog and " * 200)
        errors = done.stderr.decode()
        assert "2 of 2 translations were cut at the length limit" in errors
        assert "1 of 2 translations are of texts that were too long and were split" in errors
        assert "1 character unknown" in errors

    def test_a_truncated_text_gets_a_warning(self) -> None:
        done = command("translate", "--long", "truncate", "--max-new-tokens", "4", "I have a dog and " * 200)
        assert "lost their ends" in done.stderr.decode()

    def test_long_text_can_be_refused(self) -> None:
        done = command("translate", "--long", "error", "I have a dog and " * 200)
        assert done.returncode == 2
        assert b"text 1 has" in done.stderr

    def test_broken_utf8_is_an_error_or_is_replaced(self, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_bytes(b"Good morning.\n\xff\xfe dog\n")
        assert command("translate", "-i", tmp_path / "in.txt").returncode == 2
        done = command("translate", "-i", tmp_path / "in.txt", "--errors", "replace")
        assert done.returncode == 0
        assert len(done.stdout.splitlines()) == 2

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--device", "cuda", "Hello."],
            ["--device", "abacus", "Hello."],
            ["--resume", "Hello."],
            ["--show-attention", "a.png", "Hello.", "You."],
            ["--show-attention", "a.xyz", "Hello."],
            ["--attention", "9.9", "Hello."],
            ["--show-attention", "no/such/folder/a.png", "Hello."],
            ["--n-best", "6", "--num-beams", "2", "Hello."],
            ["--n-best", "2", "--num-return-sequences", "3", "Hello."],
            ["--max-length", "9", "--max-new-tokens", "9", "Hello."],
        ],
    )
    def test_invalid_arguments_get_one_sentence(self, arguments: list[str], tmp_path: Path) -> None:
        done = command("translate", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.decode().startswith("Error: ")
        assert done.stderr.count(b"\n") == 1
        assert not list(tmp_path.iterdir())


def test_options_without_effect_get_a_warning() -> None:
    done = command("translate", "--temperature", "0.5", "--seed", "3", "Hello.")
    assert done.returncode == 0
    assert done.stderr.decode().splitlines() == ["Warning: --temperature and --seed have no effect without --do-sample"]


class TestStreams:
    def test_a_dash_is_standard_input(self) -> None:
        assert command("translate", "-i", "-", stdin=b"Good morning.\n").stdout.startswith(b"Bom dia")
        assert command("score", "-i", "-", stdin=b"Good morning.\tBom dia.\n").returncode == 0

    @pytest.mark.parametrize(("closed", "stream"), [("<&-", "standard input"), (">&-", "standard output")])
    def test_one_that_is_closed_gets_one_sentence(self, closed: str, stream: str) -> None:
        text = "" if "<" in closed else " Hello."
        line = shlex.join([*SEQ2EDGE, "translate"]) + f"{text} {closed}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
        assert done.returncode == 2
        assert done.stderr.decode().startswith(f"Error: {stream} is closed")
        assert done.stderr.count(b"\n") == 1

    def test_standard_output_may_be_named(self, tmp_path: Path) -> None:
        for redirection in ("| cat", "> named.txt; cat named.txt"):
            line = f"{shlex.join(SEQ2EDGE)} translate -o /dev/stdout {redirection}"
            done = subprocess.run(
                ["sh", "-c", line], input=b"Good morning.\n", capture_output=True, check=False, cwd=tmp_path
            )
            assert done.stdout.startswith(b"Bom dia"), done.stderr

    def test_a_pipe_that_is_named_is_read_once(self, tmp_path: Path) -> None:
        """Counting its lines for a terminal would leave nothing to translate."""
        os.mkfifo(tmp_path / "pipe")
        program = [*SEQ2EDGE, "translate", "-i", tmp_path / "pipe", "-o", tmp_path / "out.txt"]
        ours, theirs = pty.openpty()
        with subprocess.Popen(program, stderr=theirs) as running:
            write = Thread(target=(tmp_path / "pipe").write_text, args=["Good morning.\n"], daemon=True)
            write.start()  # which waits for a reader, be there none
        os.close(theirs)
        os.close(ours)
        assert running.returncode == 0
        assert (tmp_path / "out.txt").read_text(encoding="utf-8").startswith("Bom dia")

    def test_lines_from_a_pipe_are_committed_before_it_ends(self, tmp_path: Path) -> None:
        program = [*SEQ2EDGE, "translate", "--num-beams", "1", "-o", str(tmp_path / "out.txt")]
        pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(program, **pipes) as running:
            running.stdin.write(b"Good morning.\n")
            running.stdin.flush()
            wait_for_commit(tmp_path / ".out.txt.part.journal")
            time.sleep(1)  # the disk may take its time before the command counts the line
            running.send_signal(signal.SIGINT)
            errors = running.stderr.read()
        assert errors.decode().strip() == ("stopped; 1 lines are done; run the same command with --resume to continue")
        again = command("translate", "--num-beams", "1", "-o", tmp_path / "out.txt", stdin=b"Good morning.\nHello.\n")
        assert "starts over" in again.stderr.decode()
        assert again.stderr.count(b"\n") == 1


def wait_for_commit(journal: Path) -> None:
    while not (journal.exists() and len(journal.read_bytes().splitlines()) > 1):
        time.sleep(0.02)


def test_statistics_come_on_request() -> None:
    done = command("translate", "--stats", "I have a dog.")
    assert b"1 texts, " in done.stderr
    assert b"tokens/s" in done.stderr


def test_answers_come_line_by_line_through_a_pipe() -> None:
    program = [*SEQ2EDGE, "translate", "--num-beams", "1"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        for text, answer in (("Good morning.", b"Bom dia"), ("I have a dog.", b"Eu tenho")):
            running.stdin.write(text.encode() + b"\n")
            running.stdin.flush()
            assert running.stdout.readline().startswith(answer)  # the input is still open


def test_a_terminal_shows_the_status(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("I have a dog.\n" * 1500, encoding="utf-8")
    ours, theirs = pty.openpty()
    program = [*SEQ2EDGE, "translate", "--num-beams", "1", "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt"]
    with subprocess.Popen(program, stderr=theirs, stdout=subprocess.PIPE) as running:
        os.close(theirs)
        seen = b""
        try:
            while more := os.read(ours, 1000):
                seen += more
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    assert running.returncode == 0, seen
    assert b"/ 1,500 lines" in seen
    assert b"tokens/s" in seen


class TestResume:
    @pytest.mark.trust
    def test_a_killed_run_is_resumed_without_losing_or_repeating_a_line(self, tmp_path: Path) -> None:
        texts = [f"I have {number} dogs." for number in range(3600)]
        (tmp_path / "in.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
        arguments = ["translate", "--num-beams", "1", "--threads", "1", "--format", "tsv", "-i", tmp_path / "in.txt"]
        output, part = tmp_path / "out.tsv", tmp_path / ".out.tsv.part"
        chance = random.Random(0)
        kills = 0
        while not output.exists():
            program = [*SEQ2EDGE, *map(str, arguments), "-o", str(output), "--resume"]
            with subprocess.Popen(program) as running:
                self._wait_for_progress(running, part, chance)
                running.send_signal(signal.SIGKILL)
            kills += not output.exists()
            assert kills < 30
        assert kills >= 2
        whole = tmp_path / "whole.tsv"
        assert command(*arguments, "-o", whole).returncode == 0
        assert [line.split("\t")[0] for line in output.read_text(encoding="utf-8").splitlines()] == [
            line.split("\t")[0] for line in whole.read_text(encoding="utf-8").splitlines()
        ]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.tsv", "whole.tsv"]

    @staticmethod
    def _wait_for_progress(running: subprocess.Popen[bytes], part: Path, chance: random.Random) -> None:
        """Wait until the part file has grown, and then for a random time."""
        before = part.stat().st_size if part.exists() else 0
        while running.poll() is None and not (part.exists() and part.stat().st_size > before):
            time.sleep(0.02)
        time.sleep(chance.random() / 2)

    def test_other_options_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_bytes(b"I have a dog.\n" * 1100 + b"\xff\n")  # it stops behind the first thousand
        arguments = ["translate", "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt"]
        assert command(*arguments, "--num-beams", "1").returncode == 2
        done = command(*arguments, "--num-beams", "2", "--resume")
        assert done.returncode == 2
        assert b"--num-beams was" in done.stderr
        resumed = command(*arguments, "--num-beams", "1", "--resume")
        assert b"line 1101 of" in resumed.stderr  # still
        assert not (tmp_path / "out.txt").exists()


class TestPicture:
    def test_attention_is_drawn(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        done = command("translate", "--show-attention", tmp_path / "a.png", "I have a dog.")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


class TestScore:
    def test_pairs_get_their_log_probabilities(self, translator: Translator, tmp_path: Path) -> None:
        pairs = [("I have a dog.", "Eu tenho um cachorro."), ("Good morning.", "Boa tarde.")]
        text = "".join(f"{source}\t{target}\n" for source, target in pairs)
        done = command("score", *ONE_THREAD, stdin=text.encode())
        expected = translator.score(*zip(*pairs, strict=True))
        assert done.stdout.decode().splitlines() == [f"{one.score:.4f}" for one in expected]
        (tmp_path / "in.tsv").write_text(text, encoding="utf-8")
        done = command("score", "-i", tmp_path / "in.tsv", "-o", tmp_path / "out.jsonl", "--format", "jsonl")
        assert done.returncode == 0, done.stderr
        first = json.loads((tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()[0])
        assert first["tokens"] == list(expected[0].tokens)

    def test_a_line_without_a_tab_is_named(self) -> None:
        done = command("score", stdin=b"a\tb\nno tab\n")
        assert done.returncode == 2
        assert b"line 2 has no tab" in done.stderr

    def test_a_line_with_two_tabs_is_named(self) -> None:
        done = command("score", stdin=b"a\tb\na\tb\tc\n")
        assert done.returncode == 2
        assert b"line 2 has 2 tabs" in done.stderr
        assert done.stderr.count(b"\n") == 1

    def test_a_target_that_is_too_long_is_named(self) -> None:
        done = command("score", stdin=b"a\tb\na\t" + b"dog " * 900 + b"\n")
        assert b"target 2 has" in done.stderr
