"""Bound the memory that onnxruntime takes for what it computes.

onnxruntime's own arena has no limit: a graph that asks for too much is ended by the system, and the whole process with
it. Ours takes what is asked for, not the next power of two, and beyond the limit there is an error.

Give back memory pages of a file that onnxruntime has mapped.

When a graph is loaded, the numbers of a matrix are read from the mapped file and packed for the products. They stay in
memory beside the packed copy, and of an embedding all rows do, though only those of a few tokens are wanted. The system
reads those again, mostly from its cache of files. A page that was written to is no longer the file's: a mapping that
has one is left alone.
"""

import ctypes
import mmap
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

from seq2edge.devices.cpu import MEMBERSHIP, MOUNT, cgroup_folders
from seq2edge.errors import UsageError

if TYPE_CHECKING:
    from onnxruntime import SessionOptions

VARIABLE = "SEQ2EDGE_MEMORY_LIMIT"  # megabytes for each graph; left out, all that the process may have
MEGABYTE = 10**6
AS_REQUESTED = 1  # how the arena grows
NO_LIMIT = 2**62
UNLIMITED = 2**60  # what the system says where nobody has set a limit is above

_one_at_a_time = Lock()


@contextmanager
def arena(options: "SessionOptions") -> Iterator[None]:
    """Whoever opens a session with these options inside gets an arena of its own that has the limit."""
    import onnxruntime

    kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    place = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
    settings = onnxruntime.OrtArenaCfg({"max_mem": memory_limit(), "arena_extend_strategy": AS_REQUESTED})
    options.add_session_config_entry("session.use_env_allocators", "1")
    with _one_at_a_time:  # the last one that was registered is used
        onnxruntime.create_and_register_allocator(place, settings)
        try:
            yield
        finally:  # an empty one: else this one outlives the session
            onnxruntime.create_and_register_allocator(place, settings)


def memory_limit(
    environment: Mapping[str, str] = os.environ, *, membership: Path = MEMBERSHIP, mount: Path = MOUNT
) -> int:
    """Bytes that the arena of one graph may take."""
    wanted = environment.get(VARIABLE, "")
    if wanted and not (wanted.isdecimal() and int(wanted) > 0):
        raise UsageError(f"{VARIABLE} is {wanted!r}, but should be a number of megabytes")
    if wanted:
        return min(int(wanted) * MEGABYTE, NO_LIMIT)
    granted = granted_memory(membership=membership, mount=mount)
    return _physical() if granted is None else min(_physical(), granted)


def granted_memory(*, membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> int | None:
    """Bytes that the container may use; None where nothing limits it."""
    granted = min((_granted(folder) for folder in cgroup_folders(membership, mount, "memory")), default=NO_LIMIT)
    return granted if granted < UNLIMITED else None


def _granted(folder: Path) -> int:
    for name in ("memory.max", "memory.limit_in_bytes"):
        try:
            return int((folder / name).read_text())
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return NO_LIMIT


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system
        return NO_LIMIT


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
