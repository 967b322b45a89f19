"""Output files of long runs, which a killed run leaves such that another can go on.

While a run writes ``out.txt``, its text is in ``.out.txt.part`` beside it, and ``.out.txt.part.journal`` says how much
of it can be relied on. The journal's first line names the job; each further line is a commit: so many inputs with such
a digest are finished, and their output is so many bytes. Text is safe on the disk before the journal speaks of it.

Files that one process has for itself.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from seq2edge.bundle.atomic_files import move_over, real_path
from seq2edge.config.schema import read_strict
from seq2edge.errors import DataError, UsageError


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


Job = Mapping[str, str | int | float | None]
FORMAT = 2
HEAD = b'{"seq2edge": '  # how every journal begins


@dataclass(frozen=True, kw_only=True)
class Header:
    """The first line of a journal: whose it is."""

    seq2edge: int  # version of the format
    job: dict[str, str | int | float | None]


@dataclass(frozen=True, kw_only=True)
class Record:
    """Any other line of a journal: what was committed."""

    inputs: int
    digest: str  # of these inputs, as the caller makes it
    bytes: int


class ResumableOutput:
    """Where the results go; ``done`` inputs, with this digest, need not be done again."""

    def __init__(self, path: Path, file: BinaryIO, *, done: int = 0, digest: str = "") -> None:
        self.path, self.file, self.done, self.digest = path, file, done, digest

    def write(self, text: str) -> None:
        with _told(self.path):
            self.file.write(text.encode())

    def commit(self, inputs: int, digest: str) -> None:
        """Say that all that was written belongs to so many finished inputs, counted from the first of the job."""
        with _told(self.path):
            self.file.flush()


class _Journaled(ResumableOutput):
    """The same, with a journal of the commits."""

    def __init__(self, path: Path, file: BinaryIO, journal: BinaryIO, start: Record | None) -> None:
        super().__init__(path, file, done=start.inputs if start else 0, digest=start.digest if start else "")
        self.journal = journal
        self.committed = False

    def commit(self, inputs: int, digest: str) -> None:
        with _told(self.path):
            _flush(self.file)
            self.journal.write(_line(Record(inputs=inputs, digest=digest, bytes=self.file.tell())))
            _flush(self.journal)
        self.committed = True


@contextmanager
def resumable_output(path: Path, job: Job, *, resume: bool) -> Iterator[ResumableOutput]:
    """Give an output that appears as ``path`` when all went well; what is committed before survives any end.

    With ``resume`` it goes on where the last run of the same job has stopped, or begins if there was none. A device or
    a pipe is written to as it is, and a link is followed.
    """
    with _told(path):
        is_folder, is_device = path.is_dir(), path.exists() and not path.is_file()
    if is_folder:
        raise DataError(f"{path} is a folder; name a file to write")
    if is_device and resume:
        raise UsageError(f"{path} is no ordinary file, so nothing in it can be resumed; leave out --resume")
    with _device(path) if is_device else _file(real_path(path), job, resume) as output:
        yield output


def left_over(path: Path) -> bool:
    """Whether a run to this path was interrupted, or goes on."""
    return _part(real_path(path)).exists()


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


@contextmanager
def _device(path: Path) -> Iterator[ResumableOutput]:
    with _told(path):
        file = path.open("wb")
    try:
        yield ResumableOutput(path, file)
        with _told(path):
            file.close()
    finally:
        _abandon(file)


@contextmanager
def _file(path: Path, job: Job, resume: bool) -> Iterator[ResumableOutput]:
    part = _part(path)
    notes = path.with_name(f".{path.name}.part.journal")
    with _journal(path, notes) as journal:
        with _told(path):
            start = _last_commit(path, part, journal, job) if resume else None
        output: _Journaled | None = None
        try:
            with _told(path):
                if start is None:  # the journal first: it must never speak of text that is gone
                    _begin(journal, job)
                output = _Journaled(path, _opened(part, start), journal, start)
            yield output
            with _told(path):
                _flush(output.file)
                output.file.close()
                move_over(part, path)
                remove_locked(notes, journal)
        except BaseException:
            if output is not None:
                _abandon(output.file)
            if start is None and (output is None or not output.committed):
                _remove(part, notes, journal)
            raise


@contextmanager
def _journal(path: Path, notes: Path) -> Iterator[BinaryIO]:
    """The journal, for this run alone."""
    with _told(path):
        try:
            file = lock_file(notes)
        except BlockingIOError:
            raise UsageError(f"another run is writing {path}; wait for it, or name another file") from None
    try:
        yield file
    finally:
        _abandon(file)


def _begin(journal: BinaryIO, job: Job) -> None:
    journal.truncate(0)
    journal.write(_line(Header(seq2edge=FORMAT, job=dict(job))))
    _flush(journal)


def _last_commit(path: Path, part: Path, journal: BinaryIO, job: Job) -> Record | None:
    """The last commit whose text is all there, if any; the journal then ends with it."""
    journal.seek(0)
    data = journal.read()
    if b"\n" not in data and data.startswith(HEAD[: len(data)]):  # empty, or killed while it wrote its first line
        return None
    first, *lines = data.splitlines(keepends=True) or [b""]
    header = _header(first, path)
    if lines and header.seq2edge != FORMAT:
        raise UsageError(f"{path} was begun by another version of seq2edge; leave out --resume to start over")
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
        raise DataError(f"what was left of {path} cannot be read; leave out --resume to start over") from None


def _check_job(header: Header, job: Job, path: Path) -> None:
    old, new = header.job, dict(job)
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    if keys:
        changes = ", ".join(f"{key} was {old.get(key)!r} and is {new.get(key)!r}" for key in keys)
        raise UsageError(f"{path} was begun as another job ({changes}); leave out --resume to start over")


def _record(line: bytes) -> Record | None:
    """The commit that a line tells of; none if it is torn or tells of nothing that can be."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = read_strict(Record, json.loads(line), where="journal")
    except ValueError:
        return None
    return record if record.inputs >= 0 and record.bytes >= 0 else None


def _opened(part: Path, start: Record | None) -> BinaryIO:
    """The text so far, cut where the last commit ends, to write behind it."""
    if start is None:
        return part.open("wb")
    file = part.open("r+b")
    file.truncate(start.bytes)
    file.seek(start.bytes)
    return file


def _remove(part: Path, notes: Path, journal: BinaryIO) -> None:
    with suppress(OSError):  # what went wrong before says more
        part.unlink(missing_ok=True)
        remove_locked(notes, journal)


def _line(entry: Header | Record) -> bytes:
    return json.dumps(asdict(entry)).encode() + b"\n"


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _abandon(file: BinaryIO) -> None:
    """Close a file that may have failed or be closed; what it could not write is not needed."""
    with suppress(OSError):
        file.close()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say of what the system refuses that the output cannot be written; for our own work, not for the caller's."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from None
