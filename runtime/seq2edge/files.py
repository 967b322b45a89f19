"""Files that appear complete or not at all; needs nothing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Give a path to write to; it takes the place of ``path`` when all went well, and is gone otherwise."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        yield new
        with new.open("rb") as written:
            os.fsync(written.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
