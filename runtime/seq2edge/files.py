"""Files and folders that appear complete or not at all; needs nothing."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Give a path to write to; it takes the place of ``path`` when all went well, and is gone otherwise."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        yield new
        _flush(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a folder to fill; it appears as ``path`` when all went well, and is gone otherwise.

    A run that was killed leaves a hidden folder beside ``path``, which the next run with the same path removes.
    """
    new, old = path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        yield new
        for file in new.iterdir():
            _flush(file)
        if replace and path.exists():
            shutil.rmtree(old, ignore_errors=True)
            path.rename(old)
        new.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    with path.open("rb") as written:
        os.fsync(written.fileno())
