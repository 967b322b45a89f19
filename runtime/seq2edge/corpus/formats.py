"""Read and write the rows of corpus files; what is not translated passes through unchanged.

text     a line is a text, and its translation a line; one that cannot be translated becomes an empty line
jsonl    the new values are appended to each object, whose own text stays as it is
csv      values are strings, whatever they look like
parquet  schema and metadata stay, with new columns at the end
"""

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar

from seq2edge.corpus.storage import COMPRESSION, Storage
from seq2edge.errors import DataError, UsageError

if TYPE_CHECKING:
    from pyarrow import NativeFile, Schema


T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """A column that a translation adds to the rows."""

    kind: Literal["text", "score", "notes"]  # a string, a number, a list of strings
    values: list[Any]


Columns = dict[str, Column]


@dataclass(frozen=True)
class Unusable:
    """The text of a row that cannot be translated, with the reason."""

    reason: str
    value: Any  # the row as far as it can be shown


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a file: their content as the format keeps it, and the texts to translate."""

    content: Any
    texts: list[Any]  # a string, ``Unusable``, or another value, which is refused


class Format(ABC):
    """How rows are stored. ``column`` is the one to translate."""

    def __init__(self, column: str) -> None:
        self.column = column

    @abstractmethod
    def columns(self, storage: Storage, name: str) -> list[str]:
        """Return the names of the columns of a file, to check them before anything is translated."""

    @abstractmethod
    def read(self, storage: Storage, name: str, size: int) -> Iterator[Rows]:
        """Yield the rows of a file, ``size`` at a time; of an empty file, no rows once."""

    @abstractmethod
    def encode(self, content: Any, kept: Sequence[int], added: Columns) -> bytes:
        """Return rows with their new columns as they are stored until the file is complete."""

    @abstractmethod
    def join(self, parts: Iterable[AbstractContextManager[IO[bytes]]], out: "NativeFile") -> None:
        """Write the complete file."""

    def describe(self, storage: Storage, name: str) -> Any:
        """Return what must be the same in all files."""
        return self.columns(storage, name)

    def count(self, storage: Storage, name: str) -> int:
        """Count the rows, for the progress."""
        with storage.read(name) as stream:
            return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))


class TextLines(Format):
    def columns(self, storage: Storage, name: str) -> list[str]:
        return [self.column]

    def read(self, storage: Storage, name: str, size: int) -> Iterator[Rows]:
        for lines in _lines(storage, name, size):
            yield Rows(len(lines), [_decode(line) for line in lines])

    def encode(self, content: Any, kept: Sequence[int], added: Columns) -> bytes:
        [column] = added.values()
        lines = dict(zip(kept, column.values, strict=True))
        return "".join(" ".join(lines.get(row, "").splitlines()) + "\n" for row in range(content)).encode()

    def join(self, parts: Iterable[AbstractContextManager[IO[bytes]]], out: "NativeFile") -> None:
        for part in parts:
            with part as stream:
                out.write(stream.read())


class JsonLines(TextLines):
    def columns(self, storage: Storage, name: str) -> list[str]:
        first = next(_lines(storage, name, 1))
        if not first:
            return [self.column]  # an empty file
        content = _parse(_decode(first[0]))
        if isinstance(content, Unusable):
            raise DataError(f"line 1 of {name} {content.reason}")
        return list(content)

    def describe(self, storage: Storage, name: str) -> Any:
        return "objects"  # whose keys may differ

    def read(self, storage: Storage, name: str, size: int) -> Iterator[Rows]:
        for lines in _lines(storage, name, size):
            decoded = [_decode(line) for line in lines]
            yield Rows(decoded, [self._text(_parse(line)) for line in decoded])

    def encode(self, content: Any, kept: Sequence[int], added: Columns) -> bytes:
        lines = []
        for place, row in enumerate(kept):
            new = json.dumps({name: column.values[place] for name, column in added.items()}, ensure_ascii=False)
            old = content[row].rstrip()[:-1].rstrip()  # without its last brace
            lines.append(f"{old}{'' if old.endswith('{') else ', '}{new[1:]}\n")
        return "".join(lines).encode()

    def _text(self, content: "dict[str, Any] | Unusable") -> Any:
        if isinstance(content, Unusable):
            return content
        return content.get(self.column, Unusable(f"has no {self.column!r}", content))


class Csv(Format):
    def columns(self, storage: Storage, name: str) -> list[str]:
        return next(self._records(storage, name), [])

    def read(self, storage: Storage, name: str, size: int) -> Iterator[Rows]:
        records = self._records(storage, name)
        header = next(records, [])
        place = header.index(self.column)
        for found in _groups(records, size):
            yield Rows((header, found), [_cell(record, place, len(header)) for record in found])

    def encode(self, content: Any, kept: Sequence[int], added: Columns) -> bytes:
        header, records = content
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*header, *added])
        for place, row in enumerate(kept):
            writer.writerow([*records[row], *(_csv_value(column.values[place]) for column in added.values())])
        return out.getvalue().encode()

    def join(self, parts: Iterable[AbstractContextManager[IO[bytes]]], out: "NativeFile") -> None:
        """Write the header of the first part only; it may have line breaks, so all parts are parsed."""
        for number, part in enumerate(parts):
            text = io.StringIO(newline="")
            with part as stream:
                records = csv.reader(io.StringIO(stream.read().decode(), newline=""))
                csv.writer(text, lineterminator="\n").writerows(islice(records, min(number, 1), None))
            out.write(text.getvalue().encode())

    def _records(self, storage: Storage, name: str) -> Iterator[list[str]]:
        with storage.read(name) as stream:
            try:
                text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
                yield from (record for record in csv.reader(text, strict=True) if record)
            except (csv.Error, UnicodeDecodeError) as error:
                raise DataError(f"{name} is not a CSV file in UTF-8: {error}") from None


class Parquet(Format):
    def columns(self, storage: Storage, name: str) -> list[str]:
        return list(self._schema(storage, name).names)

    def describe(self, storage: Storage, name: str) -> Any:
        return self._schema(storage, name).remove_metadata().to_string()

    def count(self, storage: Storage, name: str) -> int:
        from pyarrow import parquet

        with storage.read_at(name) as stream:
            return int(parquet.ParquetFile(stream).metadata.num_rows)

    def read(self, storage: Storage, name: str, size: int) -> Iterator[Rows]:
        import pyarrow
        from pyarrow import parquet

        with storage.read_at(name) as stream:
            file = parquet.ParquetFile(stream)
            empty = file.schema_arrow.empty_table()
            for batch in file.iter_batches(batch_size=size):
                table = pyarrow.Table.from_batches([batch], empty.schema)
                yield Rows(table, table[self.column].to_pylist())
            if file.metadata.num_rows == 0:
                yield Rows(empty, [])

    def encode(self, content: Any, kept: Sequence[int], added: Columns) -> bytes:
        import pyarrow
        from pyarrow import parquet

        table = content.take(pyarrow.array(kept, pyarrow.int64()))
        types = {"text": pyarrow.string(), "score": pyarrow.float64(), "notes": pyarrow.list_(pyarrow.string())}
        for name, column in added.items():  # a type that does not depend on the values, as a part may have none
            table = table.append_column(name, pyarrow.array(column.values, types[column.kind]))
        out = io.BytesIO()
        parquet.write_table(table, out)
        return out.getvalue()

    def join(self, parts: Iterable[AbstractContextManager[IO[bytes]]], out: "NativeFile") -> None:
        from pyarrow import parquet

        writer = None
        for part in parts:
            with part as stream:
                table = parquet.read_table(io.BytesIO(stream.read()))
            writer = writer or parquet.ParquetWriter(out, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()

    def _schema(self, storage: Storage, name: str) -> "Schema":
        from pyarrow import parquet

        with storage.read_at(name) as stream:
            return parquet.read_schema(stream)


FORMATS: dict[str, type[Format]] = {
    ".txt": TextLines,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".csv": Csv,
    ".parquet": Parquet,
}


def format_of(name: str) -> type[Format]:
    """Return the format of a file by its suffix, before that of a compressed file."""
    path = PurePosixPath(name)
    path = path.with_suffix("") if path.suffix in COMPRESSION else path
    if path.suffix not in FORMATS:
        raise UsageError(f"{name} has none of the suffixes {', '.join(FORMATS)}, which tell the format of a corpus")
    return FORMATS[path.suffix]


def _lines(storage: Storage, name: str, size: int) -> Iterator[list[bytes]]:
    with storage.read(name) as stream:
        for found in _groups(io.BufferedReader(stream), size):
            yield [line.rstrip(b"\r\n") for line in found]


def _groups(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in groups; one empty group if there are none."""
    iterator = iter(items)
    group = list(islice(iterator, size))
    yield group
    while group := list(islice(iterator, size)):
        yield group


def _decode(line: bytes) -> Any:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return Unusable("is not UTF-8", line.decode(errors="backslashreplace"))


def _parse(line: Any) -> "dict[str, Any] | Unusable":
    if isinstance(line, Unusable):
        return line
    try:
        content = json.loads(line)
    except ValueError:
        return Unusable("is not JSON", line)
    return content if isinstance(content, dict) else Unusable("is not a JSON object", line)


def _cell(record: list[str], place: int, width: int) -> Any:
    if len(record) != width:
        return Unusable(f"has {len(record)} values instead of {width}", record)
    return record[place]


def _csv_value(value: Any) -> Any:
    return "; ".join(value) if isinstance(value, list) else value
