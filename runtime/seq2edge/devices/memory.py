"""Limit and release the memory of onnxruntime.

onnxruntime's own arena has no limit: a graph that allocates too much gets the whole process killed. Our arena allocates
the requested sizes, not the next power of two, and raises an error beyond the limit.

Loading a graph reads each matrix from a mapped file and packs it for matrix products. The pages of the file would stay
in memory in addition to the packed copy, and all rows of an embedding although only a few are used, so they are
released. The system reads them again on demand, mostly from its file cache. A mapping with a page that was written to
no longer matches the file and is left alone.
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

VARIABLE = "SEQ2EDGE_MEMORY_LIMIT"  # megabytes per graph; by default, the memory limit of the process
MEGABYTE = 10**6
AS_REQUESTED = 1  # arena_extend_strategy kSameAsRequested
NO_LIMIT = 2**62
UNLIMITED = 2**60  # higher values in cgroup files mean that there is no limit

MAPPINGS, PAGES = Path("/proc/self/maps"), Path("/proc/self/pagemap")  # only on Linux
MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ [1-9]\d* +(/.*)$", re.MULTILINE)
DONT_NEED = 4  # MADV_DONTNEED
ENTRY = 8  # bytes per page in the pagemap
FLAGS = 7 if sys.byteorder == "little" else 0  # index of the byte with the flags
MEMORY, SWAPPED, OF_FILE = 0x80, 0x40, 0x20
UNCHANGED = bytes(flags for flags in range(256) if flags & OF_FILE or not flags & (MEMORY | SWAPPED))

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
MALLOC_OPTIONS = {M_MMAP_THRESHOLD: 2**20, M_TRIM_THRESHOLD: 2**20, M_ARENA_MAX: 2}

_one_at_a_time = Lock()


@contextmanager
def arena(options: "SessionOptions") -> Iterator[None]:
    """Give a session that is opened inside with these options its own arena with the limit."""
    import onnxruntime

    allocator = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    memory = onnxruntime.OrtMemoryInfo("Cpu", allocator, 0, onnxruntime.OrtMemType.DEFAULT)
    settings = onnxruntime.OrtArenaCfg({"max_mem": memory_limit(), "arena_extend_strategy": AS_REQUESTED})
    options.add_session_config_entry("session.use_env_allocators", "1")
    with _one_at_a_time:  # sessions use the allocator registered last
        onnxruntime.create_and_register_allocator(memory, settings)
        try:
            yield
        finally:  # replace it with an empty one, otherwise it outlives the session
            onnxruntime.create_and_register_allocator(memory, settings)


def memory_limit(
    environment: Mapping[str, str] = os.environ, *, membership: Path = MEMBERSHIP, mount: Path = MOUNT
) -> int:
    """Return the limit of the arena of one graph in bytes."""
    value = environment.get(VARIABLE, "")
    if value and not (value.isdecimal() and int(value) > 0):
        raise UsageError(f"{VARIABLE} is {value!r}, but should be a number of megabytes")
    if value:
        return min(int(value) * MEGABYTE, NO_LIMIT)
    limit = container_memory(membership=membership, mount=mount)
    return _physical() if limit is None else min(_physical(), limit)


def container_memory(*, membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> int | None:
    """Return the memory limit of the container in bytes, or None if there is none."""
    limit = min((_limit(folder) for folder in cgroup_folders(membership, mount, "memory")), default=NO_LIMIT)
    return limit if limit < UNLIMITED else None


def _limit(folder: Path) -> int:
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


def return_freed_memory() -> None:
    """Let the C library return large arrays to the system when they are freed; for processes that run for days.

    By default it begins to keep such arrays among small ones, and the gaps between them add up. A pool keeps those that
    are needed again and again. There is nothing to do for other libraries than that of GNU.
    """
    with suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        for option, value in MALLOC_OPTIONS.items():
            library.mallopt(option, value)


def release_pages(file: Path) -> None:
    """Release the pages of the mappings of a file that were not written to."""
    with suppress(OSError, AttributeError), PAGES.open("rb", buffering=0) as pages:  # no pagemap or no madvise
        advise = ctypes.pythonapi.madvise  # from the C library, which the process has loaded already
        for start, end in _mappings(str(file.resolve())):
            if _is_unchanged(pages, start, end):
                advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), DONT_NEED)


def _mappings(path: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end address of each mapping of a file."""
    for start, end, mapped in MAPPING.findall(MAPPINGS.read_text(errors="surrogateescape")):
        if mapped == path:
            yield int(start, 16), int(end, 16)


def _is_unchanged(pages: BinaryIO, start: int, end: int) -> bool:
    """Return whether all pages in memory are those of the file."""
    pages.seek(start // mmap.PAGESIZE * ENTRY)
    size = (end - start) // mmap.PAGESIZE * ENTRY
    entries = pages.read(size)
    return len(entries) == size and not entries[FLAGS::ENTRY].translate(None, UNCHANGED)
