"""Lines are read in groups as they become available, and a waiting reader blocks nothing."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from seq2edge.errors import DataError
from seq2edge.files.lines import available_lines, read_lines

ECHO = """
import sys
from seq2edge.files.lines import available_lines, read_lines

for group in available_lines(read_lines(None), 100):
    print(*group, sep="\\n", flush=True)
    if "stop" in group:
        raise SystemExit(3)
"""


def echo() -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", ECHO], text=True, **pipes)


def test_a_co_process_gets_an_answer_to_each_line_at_once() -> None:
    with echo() as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for line in ("one", "two", "three"):
            child.stdin.write(line + "\n")
            child.stdin.flush()
            assert child.stdout.readline() == line + "\n"
        assert child.communicate("last") == ("last\n", "")
        assert child.returncode == 0


def test_a_program_can_end_while_its_reader_waits() -> None:
    with echo() as child:
        assert child.stdin is not None
        assert child.stderr is not None
        child.stdin.write("stop\n")
        child.stdin.flush()  # and the pipe stays open
        assert child.wait(timeout=60) == 3
        assert child.stderr.read() == ""


def test_an_interrupt_ends_a_program_that_waits_for_a_line() -> None:
    with echo() as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.write("one\n")
        child.stdin.flush()
        assert child.stdout.readline() == "one\n"
        child.send_signal(signal.SIGINT)
        child.wait(timeout=60)
        errors = child.stderr.read()
        assert "KeyboardInterrupt" in errors
        assert "Fatal" not in errors


def test_a_fast_pipe_is_read_in_large_groups() -> None:
    requested = threading.Semaphore(0)

    def source() -> Iterator[str]:
        for number in range(1000):
            requested.release()
            yield str(number)

    groups = available_lines(source(), 9)
    found = [next(groups)]
    for _ in range(len(found[0]) + 10):  # the one behind the nine that have room
        assert requested.acquire(timeout=60)
    found += groups
    assert [int(line) for group in found for line in group] == list(range(1000))
    assert len(found[1]) == 9
    assert all(1 <= len(group) <= 9 for group in found)


def test_a_slow_pipe_is_read_line_by_line(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    groups = available_lines(read_lines(pipe), 100)
    answered = threading.Semaphore(0)

    def write() -> None:
        with pipe.open("w") as file:
            for number in range(5):
                print(number, file=file, flush=True)
                answered.acquire()

    writer = threading.Thread(target=write)
    writer.start()
    found = []
    for group in groups:
        found.append(group)
        answered.release()
    writer.join()
    assert found == [["0"], ["1"], ["2"], ["3"], ["4"]]


def test_no_line_gives_no_group() -> None:
    assert list(available_lines(iter(()), 5)) == []


def test_an_error_of_the_reader_comes_after_the_lines_before_it(tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\ntwo\n\xff\nfour\n")
    found: list[str] = []
    with pytest.raises(DataError, match="line 3 of"):
        found.extend(line for group in available_lines(read_lines(file), 100) for line in group)
    assert found == ["one", "two"]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_closing_ends_the_reader(most: int) -> None:
    read: list[int] = []

    def source() -> Iterator[str]:
        for number in range(10_000_000):
            read.append(number)
            yield str(number)

    before = set(threading.enumerate())
    groups = available_lines(source(), most)
    next(groups)
    [reader] = set(threading.enumerate()) - before
    groups.close()
    reader.join(timeout=60)
    assert not reader.is_alive()
    assert len(read) < 10_000_000
