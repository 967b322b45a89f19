"""Write output files of long runs so that a killed run can be resumed.

While a run writes ``out.txt``, its text is in ``.out.txt.part`` in the same folder, and ``.out.txt.part.journal`` tells
how much of it is complete. The first line of the journal describes the job; each further line is a commit: the number
and digest of the finished inputs, and the size of their output in bytes. Text is flushed to disk before its commit.
Outputs that are finished before earlier ones are in ``.out.txt.part.ahead`` until these are finished too. They are
saved after every batch, and handed to the system without waiting for the disk: ``kill -9`` loses none, a power failure
some.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from seq2edge.bundle.atomic_files import move_over, real_path
from seq2edge.config.schema import read_strict
from seq2edge.errors import DataError, UsageError

Job = Mapping[str, str | int | float | None]
T = TypeVar("T")
FORMAT = 2
HEAD = b'{"seq2edge": '  # the first bytes of every journal
LOCKED_BYTE = 2**30  # behind the end of any journal


@dataclass(frozen=True, kw_only=True)
class Header:
    """The first line of a journal: the job."""

    seq2edge: int  # version of the format
    job: dict[str, str | int | float | None]


@dataclass(frozen=True, kw_only=True)
class Record:
    """Any other line of a journal: a commit."""

    inputs: int
    digest: str  # of these inputs, computed by the caller
    bytes: int


@dataclass(frozen=True, kw_only=True)
class AheadOutput:
    """The output of one input, finished before that of an earlier one."""

    input: int  # its index
    digest: str  # of this input, computed by the caller
    text: str


class ResumableOutput:
    """An open output; the first ``done`` inputs, with this digest, were finished by an earlier run.

    ``ahead`` are the outputs of later inputs that it has also finished, by the index of the input.
    """

    def __init__(self, path: Path, file: BinaryIO, *, done: int = 0, digest: str = "") -> None:
        self.path, self.file, self.done, self.digest = path, file, done, digest
        self.ahead: dict[int, AheadOutput] = {}

    def write(self, text: str) -> None:
        with _write_errors(self.path):
            self.file.write(text.encode())

    def commit(self, inputs: int, digest: str) -> None:
        """Record that everything written so far is the output of the first ``inputs`` inputs of the job."""
        with _write_errors(self.path):
            self.file.flush()

    def keep_ahead(self, outputs: Iterable[AheadOutput]) -> None:
        """Save outputs that cannot be written yet because earlier ones are missing; a commit of them removes them."""


class _Journaled(ResumableOutput):
    """An output with a journal of its commits."""

    def __init__(self, path: Path, file: BinaryIO, journal: BinaryIO, start: Record | None) -> None:
        super().__init__(path, file, done=start.inputs if start else 0, digest=start.digest if start else "")
        self.journal = journal
        self.resumable = start is not None  # the journal has a commit
        self.ahead = _read_ahead(path, self.done) if start else {}

    def commit(self, inputs: int, digest: str) -> None:
        with _write_errors(self.path):
            _flush(self.file)
            self.journal.write(_line(Record(inputs=inputs, digest=digest, bytes=self.file.tell())))
            _flush(self.journal)
            if all(index < inputs for index in self.ahead):
                _ahead(self.path).unlink(missing_ok=True)
        self.resumable = True

    def keep_ahead(self, outputs: Iterable[AheadOutput]) -> None:
        if not self.resumable:  # an empty commit, so that the job is checked when it is resumed
            self.commit(0, "")
        with _write_errors(self.path), _ahead(self.path).open("ab") as file:
            file.write(b"".join(map(_line, outputs)))


@contextmanager
def resumable_output(path: Path, job: Job, *, resume: bool) -> Iterator[ResumableOutput]:
    """Yield an output that appears as ``path`` when the run succeeds; commits survive if it does not.

    With ``resume``, continue where the last run of the same job stopped, or start if there was none. A device or a pipe
    is written to directly, and a link is followed.
    """
    with _write_errors(path):
        is_folder, is_device = path.is_dir(), path.exists() and not path.is_file()
    if is_folder:
        raise DataError(f"{path} is a folder; name a file")
    if is_device and resume:
        raise UsageError(f"{path} is not a regular file, so it cannot be resumed; leave out --resume")
    with _device(path) if is_device else _file(real_path(path), job, resume) as output:
        yield output


def is_unfinished(path: Path) -> bool:
    """Return whether a run to this path was interrupted, or is still running."""
    return _part(real_path(path)).exists()


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _ahead(path: Path) -> Path:
    return path.with_name(f".{path.name}.part.ahead")


@contextmanager
def _device(path: Path) -> Iterator[ResumableOutput]:
    with _write_errors(path):
        file = path.open("wb")
    try:
        yield ResumableOutput(path, file)
        with _write_errors(path):
            file.close()
    finally:
        _abandon(file)


@contextmanager
def _file(path: Path, job: Job, resume: bool) -> Iterator[ResumableOutput]:
    part = _part(path)
    journal_path = path.with_name(f".{path.name}.part.journal")
    with _journal(path, journal_path) as journal:
        with _write_errors(path):
            start = _last_commit(path, part, journal, job) if resume else None
        output: _Journaled | None = None
        try:
            with _write_errors(path):
                if start is None:  # the journal before the text: it must never refer to text that is gone
                    _ahead(path).unlink(missing_ok=True)
                    _begin(journal, job)
                output = _Journaled(path, _opened(part, start), journal, start)
            yield output
            with _write_errors(path):
                _flush(output.file)
                output.file.close()
                move_over(part, path)
                _ahead(path).unlink(missing_ok=True)
                remove_locked(journal_path, journal)
        except BaseException:
            if output is not None:
                _abandon(output.file)
            if start is None and (output is None or not output.resumable):
                _remove(part, journal_path, journal)
            raise


@contextmanager
def _journal(path: Path, journal_path: Path) -> Iterator[BinaryIO]:
    """Open the journal for this run only."""
    with _write_errors(path):
        try:
            file = lock_file(journal_path)
        except BlockingIOError:
            raise UsageError(f"another run is writing {path}; wait for it, or choose another file") from None
    try:
        yield file
    finally:
        _abandon(file)


def _begin(journal: BinaryIO, job: Job) -> None:
    journal.truncate(0)
    journal.write(_line(Header(seq2edge=FORMAT, job=dict(job))))
    _flush(journal)


def _last_commit(path: Path, part: Path, journal: BinaryIO, job: Job) -> Record | None:
    """Return the last commit whose text is complete, if any, and truncate the journal after it."""
    journal.seek(0)
    data = journal.read()
    if b"\n" not in data and data.startswith(HEAD[: len(data)]):  # empty, or killed while writing the first line
        return None
    first, *lines = data.splitlines(keepends=True) or [b""]
    header = _header(first, path)
    if lines and header.seq2edge != FORMAT:
        raise UsageError(f"{path} was started by another version of seq2edge; leave out --resume to start over")
    size, end = part.stat().st_size if part.exists() else -1, len(data)
    for line in reversed(lines):
        record = _record(line)
        if record is not None and record.bytes <= size:
            _check_job(header, job, path)
            journal.truncate(end)
            return record
        end -= len(line)
    return None


def _header(line: bytes, path: Path) -> Header:
    try:
        return read_strict(Header, json.loads(line), where="journal")
    except ValueError:
        raise DataError(f"the journal of {path} cannot be read; leave out --resume to start over") from None


def _check_job(header: Header, job: Job, path: Path) -> None:
    old, new = header.job, dict(job)
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    if keys:
        changes = ", ".join(f"{key} was {old.get(key)!r} and is {new.get(key)!r}" for key in keys)
        raise UsageError(f"{path} was started as another job ({changes}); leave out --resume to start over")


def _record(line: bytes) -> Record | None:
    """Parse a commit; return None if the line is incomplete or invalid."""
    record = _parse(Record, line)
    return record if record and record.inputs >= 0 and record.bytes >= 0 else None


def _parse(cls: type[T], line: bytes) -> T | None:
    if not line.endswith(b"\n"):
        return None
    try:
        return read_strict(cls, json.loads(line), where="journal")
    except ValueError:
        return None


def _read_ahead(path: Path, done: int) -> dict[int, AheadOutput]:
    """Read the outputs of inputs behind the first ``done``, and cut off what a crash left incomplete."""
    found: dict[int, AheadOutput] = {}
    with suppress(FileNotFoundError), _ahead(path).open("r+b") as file:
        size = 0
        for line in file:
            output = _parse(AheadOutput, line)
            if output is None:
                break
            found[output.input] = output
            size += len(line)
        file.truncate(size)
    return {index: output for index, output in found.items() if index >= done}


def _opened(part: Path, start: Record | None) -> BinaryIO:
    """Open the text so far, truncated to the last commit, to append to it."""
    if start is None:
        return part.open("wb")
    file = part.open("r+b")
    file.truncate(start.bytes)
    file.seek(start.bytes)
    return file


def _remove(part: Path, journal_path: Path, journal: BinaryIO) -> None:
    with suppress(OSError):  # the error that led here matters more
        part.unlink(missing_ok=True)
        remove_locked(journal_path, journal)


def _line(entry: Header | Record | AheadOutput) -> bytes:
    return json.dumps(vars(entry)).encode() + b"\n"


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _abandon(file: BinaryIO) -> None:
    """Close a file that may have failed or be closed already."""
    with suppress(OSError):
        file.close()


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of our own file operations into a DataError that names the output."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from None


def lock_file(path: Path) -> BinaryIO:
    """Open or create a file for reading and appending; raise ``BlockingIOError`` if another run has locked it.

    The system releases the lock when the file is closed or the process ends.
    """
    while True:
        file = path.open("a+b")
        try:
            _lock(file)
        except BlockingIOError:
            file.close()
            raise
        if _is_same_file(path, file):
            return file
        file.close()  # the other run removed it after we opened it


def remove_locked(path: Path, file: BinaryIO) -> None:
    """Remove a locked file; ``lock_file`` in another run notices that it is gone."""
    if sys.platform == "win32":  # cannot remove an open file
        file.close()
    path.unlink(missing_ok=True)


def _lock(file: BinaryIO) -> None:
    # Not the package filelock: its FileLock leaves a lock file behind, and its lock_descriptor would only replace these
    # lines, at the price of a dependency.
    try:
        import fcntl
    except ImportError:  # Windows
        _lock_byte(file)
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # some network file systems have no locks; write without one
        return


def _lock_byte(file: BinaryIO) -> None:
    """Lock one byte far behind the end: on Windows nobody else can read what is locked."""
    try:
        import msvcrt
    except ImportError:  # a system with neither; write without a lock
        return
    position = file.tell()
    file.seek(LOCKED_BYTE)
    try:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    except OSError:
        raise BlockingIOError from None
    finally:
        file.seek(position)


def _is_same_file(path: Path, file: BinaryIO) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    return False
