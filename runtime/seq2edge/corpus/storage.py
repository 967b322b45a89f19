"""Files of a corpus on any file system that pyarrow knows: a local folder, s3://, gs:// or hdfs://."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from seq2edge.errors import DataError, UsageError

if TYPE_CHECKING:
    from pyarrow import NativeFile, fs

COMPRESSION = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
STATE = "_seq2edge"  # readers of data folders skip what begins with _
QUERY = re.compile(r"\?\w+=[^*]*$")
PARTS = f"{STATE}/parts"  # of files that are not complete; deleted with whatever a killed process was writing there


class Storage:
    """A folder by path or URI; it can be sent to other processes, which open it again."""

    def __init__(self, location: str) -> None:
        self.location = location if "://" in location else str(Path(location).absolute())

    def __reduce__(self) -> tuple[type["Storage"], tuple[str]]:
        return Storage, (self.location,)

    @property
    def is_local(self) -> bool:
        return "://" not in self.location

    @cached_property
    def _opened(self) -> "tuple[fs.FileSystem, str]":
        from pyarrow import fs

        with _errors(self.location):
            system, root = fs.FileSystem.from_uri(self.location)
        return system, root

    def path(self, name: str) -> str:
        root = self._opened[1]
        return f"{root}/{name}" if name else root

    def files(self, folder: str = "") -> dict[str, int]:
        """Return the size of every file in a folder and those inside it, by relative path; hidden ones are left out."""
        from pyarrow import fs

        with _errors(self.location):
            found = self._opened[0].get_file_info(
                fs.FileSelector(self.path(folder), recursive=True, allow_not_found=True)
            )
        root = self.path(folder)
        sizes = {PurePosixPath(info.path).relative_to(root): info.size for info in found if info.is_file}
        return {str(path): size for path, size in sorted(sizes.items()) if not _is_hidden(path)}

    def size(self, name: str) -> int | None:
        """Return the size of a file, or None if there is no such file."""
        with _errors(self.location):
            info = self._opened[0].get_file_info(self.path(name))
        return info.size if info.is_file else None

    @contextmanager
    def read(self, name: str, *, compressed: bool = True) -> "Iterator[NativeFile]":
        """Open a file for reading from its beginning; ``compressed`` files are unpacked by their suffix."""
        compression = COMPRESSION.get(PurePosixPath(name).suffix) if compressed else None
        with _errors(name), self._opened[0].open_input_stream(self.path(name), compression=compression) as stream:
            yield stream

    @contextmanager
    def read_at(self, name: str) -> "Iterator[NativeFile]":
        """Open a file for reading at any position."""
        with _errors(name), self._opened[0].open_input_file(self.path(name)) as stream:
            yield stream

    @contextmanager
    def write(self, name: str) -> "Iterator[NativeFile]":
        """Write a file that appears under its name when it is complete; its suffix decides about compression."""
        system, path = self._opened[0], self.path(name)
        new = self.path(f"{PARTS}/{uuid4().hex}.new")
        with _errors(name):
            for file in (new, path):
                system.create_dir(file.rpartition("/")[0], recursive=True)
            try:
                with system.open_output_stream(new, compression=COMPRESSION.get(PurePosixPath(name).suffix)) as stream:
                    yield stream
                system.move(new, path)
            except BaseException:
                with suppress(OSError):
                    system.delete_file(new)
                raise

    def read_json(self, name: str) -> Any:
        with self.read(name) as stream:
            return json.loads(stream.read())

    def write_json(self, name: str, content: Any) -> None:
        with self.write(name) as stream:
            stream.write(json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")

    def delete_file(self, name: str) -> None:
        with _errors(name):
            self._opened[0].delete_file(self.path(name))

    def delete(self, folder: str) -> None:
        """Delete a folder and everything in it; do nothing if there is none."""
        with _errors(self.location), suppress(FileNotFoundError):
            self._opened[0].delete_dir(self.path(folder))


def locate(pattern: str) -> tuple[Storage, list[str]]:
    """Return the folder and the files that a file, a folder or a glob (``data/*.parquet``) names."""
    pattern, query = _without_query(pattern)
    head, _, last = pattern.rstrip("/").rpartition("/")
    if any(sign in head for sign in "*?["):
        raise UsageError(f"{pattern} has a wildcard in a folder; only file names may have wildcards")
    parent = Storage((head or "/" if pattern.startswith("/") else head or ".") + query)
    if any(sign in last for sign in "*?["):
        names = [name for name in parent.files() if "/" not in name and PurePosixPath(name).match(last)]
        return parent, _found(names, f"no file matches {pattern}")
    if last and parent.size(last) is not None:
        return parent, [last]
    folder = Storage(pattern + query)
    return folder, _found(list(folder.files()), f"{pattern} has no files")


def _without_query(pattern: str) -> tuple[str, str]:
    """Separate the options of a file system from a URI (``s3://bucket/data?region=eu-west-1``)."""
    found = QUERY.search(pattern) if "://" in pattern else None
    return (pattern[: found.start()], found[0]) if found else (pattern, "")


def _found(names: list[str], problem: str) -> list[str]:
    if not names:
        raise DataError(f"{problem}; give a file, a folder or a pattern such as 'data/*.parquet'")
    return names


def _is_hidden(path: PurePosixPath) -> bool:
    """Tell whether other readers of data folders skip a file, too: ours are in a folder that begins with _."""
    return any(part.startswith((".", "_")) for part in path.parts)


@contextmanager
def _errors(name: str) -> Iterator[None]:
    """Turn errors of pyarrow, which are OSError or ValueError, into one sentence."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:
        if isinstance(error, UnicodeError):
            raise
        raise DataError(f"{name} cannot be used: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text.splitlines()[0][:300] if text else type(error).__name__
