"""Give back memory pages of a file that onnxruntime has mapped; needs nothing, and does nothing but on Linux.

When a graph is loaded, the numbers of a matrix are read from the mapped file and packed for the products. They stay in
memory beside the packed copy, and of an embedding all rows do, though only those of a few tokens are wanted. The system
reads those again, mostly from its cache of files. A page that was written to is no longer the file's: a mapping that
has one is left alone.
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
MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ [1-9]\d* +(/.*)$", re.MULTILINE)
DONT_NEED = 4  # MADV_DONTNEED
ENTRY = 8  # bytes that describe a page
FLAGS = 7 if sys.byteorder == "little" else 0  # the byte of them that says where the page is
MEMORY, SWAPPED, OF_FILE = 0x80, 0x40, 0x20
UNCHANGED = bytes(flags for flags in range(256) if flags & OF_FILE or not flags & (MEMORY | SWAPPED))


def give_back_pages(file: Path) -> None:
    """Forget what was read of a file, where its mapping holds nothing else."""
    with suppress(OSError, AttributeError), PAGES.open("rb", buffering=0) as pages:  # no such list or C function
        advise = ctypes.pythonapi.madvise  # the C library of the process, which is open already
        for start, end in _mappings(str(file.resolve())):
            if _is_unchanged(pages, start, end):
                advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), DONT_NEED)


def _mappings(path: str) -> Iterator[tuple[int, int]]:
    """First address and the one behind the last of each mapping of a file."""
    for start, end, mapped in MAPPING.findall(MAPPINGS.read_text(errors="surrogateescape")):
        if mapped == path:
            yield int(start, 16), int(end, 16)


def _is_unchanged(pages: BinaryIO, start: int, end: int) -> bool:
    """Whether all pages that are in memory are the file's own."""
    pages.seek(start // mmap.PAGESIZE * ENTRY)
    wanted = (end - start) // mmap.PAGESIZE * ENTRY
    entries = pages.read(wanted)
    return len(entries) == wanted and not entries[FLAGS::ENTRY].translate(None, UNCHANGED)
