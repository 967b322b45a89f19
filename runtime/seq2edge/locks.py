"""Files that one process has for itself; needs nothing, and on Windows keeps nobody out."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


def lock_file(path: Path) -> BinaryIO:
    """Open a file to read and to append to, making it if need be; ``BlockingIOError`` if another run has it.

    The system frees the lock when the file is closed or the process ends, however it ends.
    """
    while True:
        file = path.open("a+b")
        try:
            _lock(file)
        except BlockingIOError:
            file.close()
            raise
        if _is_still(path, file):
            return file
        file.close()  # the run that had it removed it after we had opened it


def remove_locked(path: Path, file: BinaryIO) -> None:
    """Remove a file that is locked; whoever opened it meanwhile will notice."""
    if sys.platform == "win32":  # an open file cannot be removed there
        file.close()
    path.unlink(missing_ok=True)


def _lock(file: BinaryIO) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # some network file systems have no locks; better to write without than not at all
        return


def _is_still(path: Path, file: BinaryIO) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    return False
