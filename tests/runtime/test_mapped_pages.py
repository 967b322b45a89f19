"""Pages of a mapped file leave the memory, and come back with what the file holds."""

import ctypes
import mmap
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seq2edge import mapped_pages
from seq2edge.bundle import EMBEDDED
from seq2edge.mapped_pages import ROWS, STRETCH, RowsRead, divide_mappings, give_back_pages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no list of mappings")
SIZE = 2**20
OPEN_BOTH = """
import sys
from pathlib import Path
from seq2edge.sessions import open_session
sessions = [open_session(Path(sys.argv[1]) / name, threads=1) for name in ("decoder.onnx", "encoder.onnx")]
print(Path("/proc/self/smaps").read_text())
"""
CODE = re.compile(r" r-xp .*/onnxruntime_pybind11_state.*\n(?:.*\n){,4}?Rss: +(\d+) kB")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights with a space.bin"
    path.write_bytes(bytes(range(256)) * (SIZE // 256))
    return path


def kilobytes_in_memory(path: Path) -> int:
    behind = Path("/proc/self/smaps").read_text().split(str(path))[1]
    return int(re.search(r"Rss: +(\d+) kB", behind)[1])


def mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as opened:
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)  # private, as onnxruntime maps it


def test_what_was_only_read_leaves_the_memory_and_can_be_read_again(file: Path) -> None:
    with mapped(file) as content:
        assert content[:] == file.read_bytes()
        assert kilobytes_in_memory(file) == SIZE // 1024
        give_back_pages(file)
        assert kilobytes_in_memory(file) == 0
        assert content[:] == file.read_bytes()


def test_what_was_written_to_stays(file: Path) -> None:
    with mapped(file) as content:
        content[5:8] = b"new"
        give_back_pages(file)
        assert content[5:8] == b"new"


def test_other_files_stay(file: Path, tmp_path: Path) -> None:
    with mapped(file) as content:
        assert content[:] == file.read_bytes()
        give_back_pages(tmp_path / "nothing", libraries=True)
        assert kilobytes_in_memory(file) == SIZE // 1024


def test_the_code_that_has_opened_sessions_does_not_stay() -> None:
    command = [sys.executable, "-c", OPEN_BOTH, str(EMBEDDED)]
    [kilobytes] = CODE.findall(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert int(kilobytes) < 1000  # loading has read some 15,000


def test_rows_of_a_large_file_are_given_back_from_time_to_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_pages, "LARGE", SIZE)
    rows = RowsRead(file)
    with mapped(file) as content:
        assert content[:] == file.read_bytes()
        rows.add(ROWS - 1)
        assert kilobytes_in_memory(file) == SIZE // 1024
        rows.add(1)
        assert kilobytes_in_memory(file) == 0


def test_a_large_file_is_mapped_in_stretches_that_have_the_same_content(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_pages, "LARGE", SIZE)
    with mapped(file) as content:
        content[5:8] = b"new"
        divide_mappings(file)
        stretches = Path("/proc/self/maps").read_text().count(str(file))
        assert 1 < stretches <= SIZE // STRETCH
        assert content[5:8] == b"new"
        assert content[8:] == file.read_bytes()[8:]


def test_rows_of_small_files_are_left_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("nothing should be called"))
    RowsRead(file).add(ROWS)


def test_without_the_lists_of_linux_nothing_happens(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_pages, "PAGES", file.parent / "nothing")
    with mapped(file) as content:
        assert content[:] == file.read_bytes()
        give_back_pages(file)
        assert kilobytes_in_memory(file) == SIZE // 1024
