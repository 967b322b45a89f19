"""A run that was stopped in any way is resumed and writes the same file as one that was not."""

import fcntl
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from seq2edge.errors import DataError, UsageError
from seq2edge.files.resumable import is_unfinished, resumable_output

JOB = {"bundle": "5f3a", "num_beams": 4, "length_penalty": 0.6, "input": "in.txt", "max_new_tokens": None}
INPUTS = 400
MANY = [f"Zeile {number} – {'ü' * (number % 7)}\n" for number in range(10 * INPUTS)]
LINES = MANY[:INPUTS]

RUN = """
import sys
from pathlib import Path
from seq2edge.files.resumable import resumable_output

target, inputs = Path(sys.argv[1]), int(sys.argv[2])
with resumable_output(target, {"inputs": inputs}, resume=True) as output:
    print(output.done, flush=True)
    for number in range(output.done, inputs):
        output.write(f"Zeile {number} – {'ü' * (number % 7)}\\n")
        if number % 3 == 2:
            output.commit(number + 1, str(number))
"""


def run(path: Path, *, upto: int = INPUTS, stop: bool = False, resume: bool = False, every: int = 3) -> int:
    """Write lines up to a number, committing some, and optionally stop with an error; return where it started."""
    with resumable_output(path, JOB, resume=resume) as output:
        for number in range(output.done, upto):
            output.write(LINES[number])
            if number % every == every - 1:
                output.commit(number + 1, str(number))
        if stop:
            raise KeyboardInterrupt
    return output.done


def stopped(path: Path, upto: int, **options: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(path, upto=upto, stop=True, **options)


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def journal(path: Path) -> Path:
    return path.with_name(f".{path.name}.part.journal")


def test_a_successful_run_leaves_only_the_output(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    with resumable_output(target, JOB, resume=False) as output:
        output.write("Grüße\n")
        output.commit(1, "")
        output.write("and what was never committed\n")
        assert target.read_text() == "old"
        assert left(tmp_path) == {"out.txt", ".out.txt.part", ".out.txt.part.journal"}
    assert target.read_bytes() == "Grüße\nand what was never committed\n".encode()
    assert left(tmp_path) == {"out.txt"}


def test_a_run_without_a_commit_leaves_nothing(tmp_path: Path) -> None:
    stopped(tmp_path / "out.txt", upto=2)
    assert left(tmp_path) == set()


def test_a_run_that_was_stopped_is_resumed_at_its_last_commit(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    stopped(target, upto=8)
    assert left(tmp_path) == {".out.txt.part", ".out.txt.part.journal"}
    assert run(target, resume=True) == 6
    assert target.read_text(encoding="utf-8") == "".join(LINES)
    assert left(tmp_path) == {"out.txt"}


def test_a_resumed_run_that_stops_before_it_commits_can_be_resumed_again(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    stopped(target, upto=8)
    stopped(target, upto=7, resume=True)
    assert run(target, resume=True) == 6
    assert target.read_text(encoding="utf-8") == "".join(LINES)


def test_with_nothing_to_resume_a_run_starts(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("of a run that is complete")
    assert run(target, resume=True) == 0
    assert target.read_text(encoding="utf-8") == "".join(LINES)


def test_without_resume_what_was_left_is_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    stopped(target, upto=100)
    assert run(target, upto=5) == 0
    assert target.read_text(encoding="utf-8") == "".join(LINES[:5])
    assert left(tmp_path) == {"out.txt"}


def test_the_journal_is_lines_of_json(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    stopped(target, upto=7)
    header, *records = map(json.loads, journal(target).read_text().splitlines())
    assert header == {"seq2edge": 2, "job": JOB}
    sizes = [len("".join(LINES[:count]).encode()) for count in (3, 6)]
    assert records == [
        {"inputs": 3, "digest": "2", "bytes": sizes[0]},
        {"inputs": 6, "digest": "5", "bytes": sizes[1]},
    ]


def test_every_state_that_a_crash_can_leave_is_resumed_to_the_same_file(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    stopped(target, upto=7)
    text, notes = part(target).read_bytes(), journal(target).read_bytes()
    begins = set()
    for torn in range(len(notes) + 1):
        for kept in (None, 0, 20, 64, 120, len(text)):
            journal(target).write_bytes(notes[:torn])
            part(target).unlink(missing_ok=True)
            if kept is not None:
                part(target).write_bytes(text[:kept])
            begins.add(run(target, upto=9, resume=True, every=100))
            assert target.read_text(encoding="utf-8") == "".join(LINES[:9])
            assert left(tmp_path) == {"out.txt"}
    assert begins == {0, 3, 6}


def test_what_follows_a_torn_record_can_be_resumed(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    stopped(target, upto=8)
    with journal(target).open("ab") as file:
        file.write(b'{"inputs": 9, "by')
    stopped(target, upto=14, resume=True)
    assert run(target, resume=True) == 12
    assert target.read_text(encoding="utf-8") == "".join(LINES)


@pytest.mark.parametrize(
    "record",
    [
        "[]",
        "7",
        '{"inputs": 9}',
        '{"inputs": 9, "bytes": 0}',
        '{"inputs": -1, "digest": "", "bytes": 0}',
        '{"inputs": 9, "digest": "", "bytes": "1"}',
        "\x00\x00",
    ],
)
def test_an_invalid_record_is_skipped(tmp_path: Path, record: str) -> None:
    target = tmp_path / "out.txt"
    stopped(target, upto=8)
    with journal(target).open("a") as file:
        file.write(record + "\n")
    assert run(target, resume=True) == 6
    assert target.read_text(encoding="utf-8") == "".join(LINES)


def test_another_job_is_refused_with_what_differs_and_stays(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    stopped(target, upto=8)
    before = part(target).read_bytes(), journal(target).read_bytes()
    other = {**JOB, "num_beams": 1, "input": "other.txt", "seed": 7}
    with pytest.raises(UsageError) as caught, resumable_output(target, other, resume=True):
        pass
    assert str(caught.value) == (
        f"{target} was started as another job (num_beams was 4 and is 1, input was 'in.txt' and is 'other.txt', "
        "seed was None and is 7); leave out --resume to start over"
    )
    assert (part(target).read_bytes(), journal(target).read_bytes()) == before
    assert run(target, resume=True) == 6


def test_another_job_that_committed_nothing_is_no_obstacle(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    journal(target).write_text('{"seq2edge": 2, "job": {"num_beams": 9}}\n')
    part(target).write_text("half a li")
    assert run(target, resume=True) == 0
    assert target.read_text(encoding="utf-8") == "".join(LINES)


def test_another_format_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    stopped(target, upto=8)
    journal(target).write_text(journal(target).read_text().replace('"seq2edge": 2', '"seq2edge": 1'))
    with pytest.raises(UsageError, match="another version of seq2edge; leave out --resume"):
        run(target, resume=True)


@pytest.mark.parametrize(
    "garbage", [b"\x00\x00\x00", b"hello", b"hello\n", b"[]\n[]\n", b"\xff\n", b'{"seq2edge": 2}\n']
)
def test_a_journal_of_garbage_is_refused_and_can_be_overwritten(tmp_path: Path, garbage: bytes) -> None:
    target = tmp_path / "out.txt"
    part(target).write_text("half a li")
    journal(target).write_bytes(garbage)
    with pytest.raises(DataError, match=r"cannot be read; leave out --resume to start over$"):
        run(target, resume=True)
    assert journal(target).read_bytes() == garbage
    assert run(target) == 0
    assert target.read_text(encoding="utf-8") == "".join(LINES)


@pytest.mark.parametrize("resume", [True, False])
def test_a_second_run_to_the_same_file_is_refused_and_the_first_undisturbed(tmp_path: Path, resume: bool) -> None:
    target = tmp_path / "out.txt"
    with resumable_output(target, JOB, resume=False) as output:
        output.write("first\n")
        output.commit(1, "")
        with pytest.raises(UsageError, match="another run is writing"):
            run(target, resume=resume)
        code = [sys.executable, "-c", RUN, str(target), "10"]
        done = subprocess.run(code, capture_output=True, text=True, check=False)
        assert "UsageError: another run is writing" in done.stderr
        output.write("first\n")
    assert target.read_text() == "first\nfirst\n"
    assert left(tmp_path) == {"out.txt"}


def test_a_run_that_opened_the_journal_before_another_removed_it_takes_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, flock, rounds = tmp_path / "out.txt", fcntl.flock, []

    def after_another_run(file: int, how: int) -> None:
        rounds.append(file)
        if len(rounds) == 1:
            run(target, upto=3)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", after_another_run)
    with resumable_output(target, JOB, resume=True) as output:
        assert output.done == 0
        with pytest.raises(UsageError, match="another run"):
            run(target)
    assert left(tmp_path) == {"out.txt"}


@pytest.mark.parametrize("name", [".", "no/such/folder/out.txt", "file/out.txt", "x" * 250])
def test_a_path_that_cannot_be_written_gets_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"^[^\n]*(is a folder; name a file|cannot be written: [^\n]*)$"):
        run(tmp_path / name)
    assert left(tmp_path) == {"file"}


def test_a_full_disk_gets_one_sentence_and_keeps_what_was_committed(tmp_path: Path) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n" + RUN
    target = tmp_path / "out.txt"
    done = subprocess.run([sys.executable, "-c", code, target, "400"], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(f"DataError: {target} cannot be written: File too large")
    done = subprocess.run([sys.executable, "-c", RUN, target, "400"], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 10
    assert target.read_text(encoding="utf-8") == "".join(LINES)


def test_an_error_of_the_caller_is_not_ours(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), resumable_output(tmp_path / "out.txt", JOB, resume=False):
        raise BrokenPipeError
    assert left(tmp_path) == set()


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "out.txt"
    link.symlink_to(target)
    stopped(link, upto=8)
    assert is_unfinished(link)
    assert run(link, resume=True) == 6
    assert target.read_text(encoding="utf-8") == "".join(LINES)
    assert left(tmp_path) == {"link", "out.txt"}
    assert not is_unfinished(link)


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.touch()
    target.chmod(0o604)
    run(target, upto=3)
    assert target.stat().st_mode & 0o777 == 0o604


def test_what_was_done_comes_with_its_digest(tmp_path: Path) -> None:
    stopped(tmp_path / "out.txt", upto=8)
    with resumable_output(tmp_path / "out.txt", JOB, resume=True) as output:
        assert (output.done, output.digest) == (6, "5")


def test_a_device_is_written_to_and_cannot_be_resumed(tmp_path: Path) -> None:
    assert run(Path(os.devnull), upto=5) == 0
    with pytest.raises(UsageError, match="leave out --resume"):
        run(Path(os.devnull), resume=True)
    assert not list(Path(os.devnull).parent.glob(".null.part*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only some systems have a device that is always full")
@pytest.mark.parametrize("every", [1, 100])
def test_a_device_that_fails_gets_one_sentence(every: int) -> None:
    with pytest.raises(DataError, match=r"^/dev/full cannot be written: No space left on device$"):
        run(Path("/dev/full"), upto=5, every=every)


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    run(pipe)
    reader.join()
    assert found == ["".join(LINES)]
    assert pipe.is_fifo()
    assert left(tmp_path) == {"pipe"}


def test_a_run_that_is_killed_again_and_again_ends_with_the_same_file(tmp_path: Path) -> None:
    target, chance, begins = tmp_path / "out.txt", random.Random(0), [0]
    command = [sys.executable, "-c", RUN, str(target), str(len(MANY))]
    while not target.exists():
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            begins.append(int(child.stdout.readline()))
            if len(begins) < 12:
                time.sleep(chance.uniform(0, 0.04))
                child.kill()
    assert begins == sorted(begins)
    assert target.read_text(encoding="utf-8") == "".join(MANY)
    assert left(tmp_path) <= {"out.txt", ".out.txt.part.journal"}  # killed while it removed the journal
