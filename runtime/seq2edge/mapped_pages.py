"""Give back memory pages of a file that onnxruntime has mapped; needs nothing, and does nothing but on Linux.

When a graph is loaded, the numbers of a matrix are read from the mapped file and packed for the products. An embedding
that is also the output matrix stays mapped beside its packed copy, all of it in memory, though only the rows of a few
tokens are wanted. The system reads those again, mostly from its cache of files.
"""

import ctypes
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MAPPINGS = Path("/proc/self/smaps")  # Linux alone has it
DONT_NEED = 4  # MADV_DONTNEED
LARGE = 50_000_000  # bytes of a file; for less it is not worth reading the list, which takes some 10 ms
MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ [1-9]\d* +(/.*)$", re.MULTILINE)
CHANGED = re.compile(r"^Anonymous: +(\d+) kB$", re.MULTILINE)


def give_back_pages(file: Path) -> None:
    """Forget what was read of a file, where its mapping holds nothing else."""
    with suppress(OSError, AttributeError):  # no such file or list, or a C library without the call
        if file.stat().st_size < LARGE:
            return
        advise = ctypes.CDLL(None).madvise
        for start, end in _unchanged(MAPPINGS.read_text(errors="surrogateescape"), str(file.resolve())):
            advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), DONT_NEED)


def _unchanged(mappings: str, path: str) -> Iterator[tuple[int, int]]:
    """First and last address of each mapping of a file of which no page was written to."""
    for found in MAPPING.finditer(mappings):
        changed = CHANGED.search(mappings, found.end())
        if found[3] == path and changed is not None and changed[1] == "0":
            yield int(found[1], 16), int(found[2], 16)
