"""Lines of text are read and counted, and refused or repaired where they are not UTF-8."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2edge.errors import DataError
from seq2edge.files import lines
from seq2edge.files.lines import count_lines, read_lines


def written(folder: Path, data: bytes) -> Path:
    (folder / "in.txt").write_bytes(data)
    return folder / "in.txt"


def test_only_a_newline_ends_a_line_and_a_byte_order_mark_is_left_out(tmp_path: Path) -> None:
    file = written(tmp_path, "\ufeffa\r\nb\u2028c\x0bd\n\ne".encode())
    assert list(read_lines(file)) == ["a", "b\u2028c\x0bd", "", "e"]


def test_a_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, b"good\nb\xffd\n")
    with pytest.raises(DataError, match=r"^line 2 of .*in\.txt is not UTF-8: convert it$"):
        list(read_lines(file))


def test_bad_bytes_are_replaced_on_request_and_the_rest_is_kept(tmp_path: Path) -> None:
    file = written(tmp_path, b"\xef\xbb\xbfgood\nb\xffd\r\ntorn \xe2\x82\nS\xc3\xa4tze")
    assert list(read_lines(file, errors="replace")) == ["good", "b\ufffdd", "torn \ufffd", "Sätze"]


@pytest.mark.parametrize("read", [count_lines, lambda path: next(read_lines(path))])
def test_a_file_that_cannot_be_read_gets_one_sentence(tmp_path: Path, read) -> None:
    for path in (tmp_path, tmp_path / "nowhere.txt"):
        with pytest.raises(DataError, match="cannot be read: "):
            read(path)


@settings(deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([b"", b"ab", b"\r", "ü".encode()])), st.booleans(), st.integers(1, 5))
def test_as_many_lines_are_counted_as_are_read(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], ended: bool, chunk: int
) -> None:
    file = written(tmp_path_factory.mktemp("count"), b"\n".join(parts) + b"\n" * ended)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK", chunk)
        assert count_lines(file) == len(list(read_lines(file)))


def test_a_closed_standard_input_gets_one_sentence() -> None:
    code = "import sys; sys.stdin = None; from seq2edge.files.lines import read_lines; next(read_lines(None))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "DataError: standard input is closed; name an input file with --input" in done.stderr
