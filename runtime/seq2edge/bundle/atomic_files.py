"""Files and folders that appear complete or not at all."""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Give a path to write to; it takes the place of ``path`` when all went well, and is gone otherwise.

    A link stays a link: the file that it points to is replaced.
    """
    path = real_path(path)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        yield new
        _flush(new)
        take_place(new, path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a folder to fill; it takes the place of ``path`` when all went well, and is gone otherwise.

    A run that was killed leaves a hidden folder beside ``path``, which the next run with the same path removes.
    """
    _remove_what_killed_runs_left(path)
    new, old = (path.with_name(f".{path.name}.{os.getpid()}.{kind}") for kind in ("new", "old"))
    new.mkdir(parents=True)
    try:
        yield new
        for file in new.iterdir():
            _flush(file)
        _take_place(new, path, old)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def real_path(path: Path) -> Path:
    """Where a link leads; any other path stays as it was written, so that messages name it so."""
    return path.resolve() if path.is_symlink() else path


def take_place(new: Path, path: Path) -> None:
    """Let a complete file take the place of another, whose permissions it gets."""
    with suppress(FileNotFoundError):
        new.chmod(stat.S_IMODE(path.stat().st_mode))
    new.replace(path)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _take_place(new: Path, path: Path, old: Path) -> None:
    if path.exists():
        path.rename(old)
    try:
        new.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)  # better what was there than nothing
        raise


def _remove_what_killed_runs_left(path: Path) -> None:
    for left in path.parent.glob(f".{path.name}.*.new"):
        process = left.name.split(".")[-2]
        if process.isdigit() and not _is_running(int(process)):
            shutil.rmtree(left, ignore_errors=True)


def _is_running(process: int) -> bool:
    """Whether there is such a process, or may be; another run to the same name is left alone."""
    if os.name != "posix":  # elsewhere, signal 0 is not a question
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _flush(path: Path) -> None:
    with path.open("r+b") as written:
        os.fsync(written.fileno())
