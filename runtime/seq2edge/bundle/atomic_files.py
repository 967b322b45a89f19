"""Write files and folders that appear complete or not at all."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` on success and is removed on failure.

    A symbolic link stays: the file that it points to is replaced.
    """
    path = real_path(path)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        yield new
        _flush(new)
        move_over(new, path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces ``path`` on success and is removed on failure.

    A killed run leaves a hidden folder next to ``path``, which the next run with the same path removes.
    """
    _remove_leftovers(path)
    new, old = (path.with_name(f".{path.name}.{os.getpid()}.{suffix}") for suffix in ("new", "old"))
    try:
        new.mkdir(parents=True)
        yield new
        for file in filter(Path.is_file, new.rglob("*")):
            _flush(file)
        _replace_folder(new, path, old)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def real_path(path: Path) -> Path:
    """Resolve a symbolic link; return any other path unchanged, so that messages show it as the user wrote it."""
    return path.resolve() if path.is_symlink() else path


def move_over(new: Path, path: Path) -> None:
    """Replace a file, keeping its permissions."""
    with suppress(FileNotFoundError):
        new.chmod(stat.S_IMODE(path.stat().st_mode))
    new.replace(path)


def sha256_of(path: Path) -> str:
    from hashlib import file_digest  # which loads OpenSSL

    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _replace_folder(new: Path, path: Path, old: Path) -> None:
    if path.exists():
        path.rename(old)
    try:
        new.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)  # restore what was there
        raise


def _remove_leftovers(path: Path) -> None:
    for folder in path.parent.glob(f".{path.name}.*.new"):
        process = folder.name.split(".")[-2]
        if process.isdigit() and not _is_running(int(process)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    """Return whether a process exists or may exist: the folder of a concurrent run must be kept."""
    if os.name != "posix":  # elsewhere, signal 0 is not a mere test
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _flush(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())
