"""Give back memory pages of mapped files that are not needed now; needs nothing, and does nothing but on Linux.

A process holds every page of a file that it has ever looked at, and the system maps those around it with each. So the
code that prepares graphs stays when they are ready; the numbers of a matrix stay beside the copy that was packed for
the products; and an embedding is soon there in full, though only the rows of a few tokens are wanted. What is given
back the system maps again when it is wanted, mostly from its cache of files. A page that was written to is no longer
the file's: a mapping that has one is left alone.
"""

import ctypes
import mmap
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

MAPPINGS, PAGES = Path("/proc/self/maps"), Path("/proc/self/pagemap")  # Linux alone has them
MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r(.).p \S+ \S+ [1-9]\d* +(/.*)$", re.MULTILINE)
LIBRARY = re.compile(r"\.so(\.[\d.]+)?$")
SMALLEST = 2**16  # bytes of a mapping: for less it is not worth the calls
LARGE = 20_000_000  # bytes of a file: the embedding of a smaller one takes less than looking after it is worth
ROWS = 512  # that may be read until they are given back: some MB, and the work of half a second
STRETCH = 2**18  # bytes of an embedding that are mapped at most for one row
RANDOM, DONT_NEED = 1, 4  # MADV_RANDOM, MADV_DONTNEED
ENTRY = 8  # bytes that describe a page
FLAGS = 7 if sys.byteorder == "little" else 0  # the byte of them that says where the page is
MEMORY, SWAPPED, OF_FILE = 0x80, 0x40, 0x20
UNCHANGED = bytes(flags for flags in range(256) if flags & OF_FILE or not flags & (MEMORY | SWAPPED))


def give_back_pages(*files: Path, libraries: bool = False) -> None:
    """Forget what was read of some files, and of all shared libraries if so wanted."""
    paths = {str(file.resolve()) for file in files}
    with suppress(OSError, AttributeError), PAGES.open("rb", buffering=0) as pages:  # no such list or C function
        advise = ctypes.CDLL(None).madvise
        for start, end in _mappings(paths, libraries=libraries):
            if end - start >= SMALLEST and _is_unchanged(pages, start, end):
                advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), DONT_NEED)


def divide_mappings(file: Path) -> None:
    """Divide what is mapped of a large file into stretches, by different advice for each second one.

    Newer systems map up to 2 MB around what is read, as it lies in their cache, but nothing beyond a stretch.
    """
    if file.stat().st_size < LARGE:
        return
    with suppress(OSError, AttributeError):
        advise = ctypes.CDLL(None).madvise
        for start, end in list(_mappings({str(file.resolve())}, libraries=False)):
            for place in range(start, end - 2 * STRETCH, 2 * STRETCH):
                advise(ctypes.c_void_p(place), ctypes.c_size_t(STRETCH), RANDOM)


class RowsRead:
    """Gives back the pages of a large file from time to time, by the rows of an embedding that were read from it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.is_large = file.stat().st_size >= LARGE
        self.rows = 0

    def add(self, rows: int) -> None:
        self.rows += rows
        if self.is_large and self.rows >= ROWS:
            self.rows = 0
            give_back_pages(self.file)


def _mappings(paths: set[str], *, libraries: bool) -> Iterator[tuple[int, int]]:
    """First address and the one behind the last of each mapping of these files, and of what libraries only read.

    What they may write to is left alone: another thread may just be loading one, and fill in addresses.
    """
    for start, end, writable, path in MAPPING.findall(MAPPINGS.read_text(errors="surrogateescape")):
        if path in paths or (libraries and writable == "-" and LIBRARY.search(path)):
            yield int(start, 16), int(end, 16)


def _is_unchanged(pages: BinaryIO, start: int, end: int) -> bool:
    """Whether all pages that are in memory are the file's own."""
    pages.seek(start // mmap.PAGESIZE * ENTRY)
    wanted = (end - start) // mmap.PAGESIZE * ENTRY
    entries = pages.read(wanted)
    return len(entries) == wanted and not entries[FLAGS::ENTRY].translate(None, UNCHANGED)
