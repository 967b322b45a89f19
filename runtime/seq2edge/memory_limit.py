"""Bound the memory that onnxruntime takes for what it computes; needs onnxruntime.

onnxruntime's own arena has no limit: a graph that asks for too much is ended by the system, and the whole process with
it. Ours takes what is asked for, not the next power of two, and beyond the limit there is an error.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from seq2edge.cpus import MEMBERSHIP, MOUNT, cgroup_folders
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
