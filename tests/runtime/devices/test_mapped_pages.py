"""Pages of a mapped file are released, and can be read again."""

import mmap
import re
import sys
from pathlib import Path

import pytest

from seq2edge.devices import memory
from seq2edge.devices.memory import release_pages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no list of mappings")
SIZE = 2**20


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


def test_pages_that_were_only_read_are_released_and_can_be_read_again(file: Path) -> None:
    with mapped(file) as content:
        assert content[:] == file.read_bytes()
        assert kilobytes_in_memory(file) == SIZE // 1024
        release_pages(file)
        assert kilobytes_in_memory(file) == 0
        assert content[:] == file.read_bytes()


def test_pages_that_were_written_to_stay(file: Path) -> None:
    with mapped(file) as content:
        content[5:8] = b"new"
        release_pages(file)
        assert content[5:8] == b"new"


def test_other_files_stay(file: Path, tmp_path: Path) -> None:
    with mapped(file) as content:
        assert content[:] == file.read_bytes()
        release_pages(tmp_path / "nothing")
        assert kilobytes_in_memory(file) == SIZE // 1024


def test_without_the_pagemap_of_linux_nothing_happens(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PAGES", file.parent / "nothing")
    with mapped(file) as content:
        assert content[:] == file.read_bytes()
        release_pages(file)
        assert kilobytes_in_memory(file) == SIZE // 1024
