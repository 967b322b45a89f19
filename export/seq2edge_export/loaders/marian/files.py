"""Find and read the files of a Marian model: its tensors, search settings and vocabularies.

Tensors are in an ``.npz`` file, of which nothing is unpickled, or in Marian's own little-endian ``.bin`` format::

    version (8 bytes, 1), number of tensors N (8)
    N headers: length of the name, type, rank, bytes of the content (8 each)
    N names, each with a closing zero
    N shapes, 4 bytes a size
    length of the padding (8 bytes), the padding
    N contents, mostly padded to a multiple of 256 bytes

Every length is checked against the size of the file before anything is read or allocated.
"""

import math
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from tokenize import TokenError
from typing import IO, Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.marian.config import Mapping, MarianSettings, parse_yaml, read_yaml

CONFIG = "special:model.yml"
CONFIGS = ("decoder.yml", "config.yml", "*.decoder.yml", "config.*.yml")  # in this order
NPZ, BIN, NPY = ".npz", ".bin", ".npy"
SENTENCEPIECE, TOKEN_LISTS = (".spm",), (".yml", ".yaml", ".json")
SIDES = (re.compile(r"(^|[._-])(src|source)(?=vocab|[._-])"), re.compile(r"(^|[._-])(trg|tgt|target)(?=vocab|[._-])"))
TYPES = {
    "f2": 0x402,
    "f4": 0x404,
    "f8": 0x408,
    "i1": 0x101,
    "i4": 0x104,
    "u1": 0x201,
    "u4": 0x204,
}  # numpy's to Marian's
MAX_RATIO = 64  # of unpacked to packed size: weights hardly compress, so more is a zip bomb
NOT_A_ZIP = (BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, TokenError, zlib.error)
VERSION, HEADER_FIELDS = 1, 4  # of .bin files


@dataclass(frozen=True)
class MarianFiles:
    """The paths of a model's files, and the content of its search settings."""

    model: Path
    search: Mapping  # empty if there is no file
    vocabularies: tuple[Path, Path]
    pieces: tuple[Path, Path] | None  # SentencePiece models, if the vocabularies are token lists


@dataclass(frozen=True)
class Item:
    """A stored tensor: its bytes, and Marian's number for their type."""

    type: int
    shape: tuple[int, ...]
    content: NDArray[Any]  # uint8, may be longer than the shape needs


Items = dict[str, Item]


def is_model(path: Path) -> bool:
    """Return whether a path is a model file or a folder that holds one."""
    return _is_model_file(path) if path.is_file() else path.is_dir() and bool(_models(path))


def find_files(path: Path) -> MarianFiles:
    """Find the files that belong to a model file, or those in a folder."""
    folder = path.parent if path.is_file() else path
    config = _find_config(folder, path)
    search = read_yaml(config) if config else {}
    model = path if path.is_file() else _find_model(folder, search)
    source, target = _find_vocabularies(folder, search)
    is_list = any(file.suffix not in SENTENCEPIECE for file in (source, target))
    pieces = _pair(_files_with(folder, SENTENCEPIECE)) if is_list else None
    return MarianFiles(model, search, (source, target), pieces)


def read_items(path: Path) -> Items:
    """Read the tensors and settings of a model file."""
    return read_archive(path) if path.suffix == NPZ else read_binary(path)


def read_embedded_settings(path: Path, items: Items) -> Mapping:
    """Parse the settings that Marian stores inside the model file."""
    if CONFIG not in items:
        raise CheckpointError(f"{path} has no settings inside ({CONFIG}), which Marian writes with every model")
    content = items[CONFIG].content.tobytes().rstrip(b"\0")
    try:
        return parse_yaml(content.decode(), f"{CONFIG} in {path}")
    except UnicodeDecodeError:
        raise CheckpointError(f"{CONFIG} in {path} is not UTF-8") from None


def broken(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path} is broken: {reason}; copy or convert the model again")


def _find_config(folder: Path, path: Path) -> Path | None:
    patterns = (f"{path.name}.decoder.yml", *CONFIGS) if path.is_file() else CONFIGS
    return next((file for pattern in patterns for file in sorted(folder.glob(pattern)) if file.is_file()), None)


def _find_model(folder: Path, search: Mapping) -> Path:
    names = MarianSettings(search, []).texts("models")
    if len(names) > 1:
        raise CheckpointError(f"{folder} is an ensemble of {len(names)} models; name the file of one of them")
    models = [_in_folder(folder, names[0])] if names else _models(folder)
    if len(models) != 1 or not models[0].is_file():
        listed = ", ".join(path.name for path in models) or "none"
        raise CheckpointError(f"{folder} should hold one model of Marian (.npz or .bin), but there is {listed}")
    return models[0]


def _models(folder: Path) -> list[Path]:
    return [path for path in _files_with(folder, (NPZ, BIN)) if _is_model_file(path)]


def _is_model_file(path: Path) -> bool:
    return _has_embedded_settings(path) if path.suffix == NPZ else path.suffix == BIN and begins_as_marian(path)


def _find_vocabularies(folder: Path, search: Mapping) -> tuple[Path, Path]:
    """Return the two that the settings name, or those in the folder: one for both sides or one for each."""
    named = [_in_folder(folder, name) for name in MarianSettings(search, []).texts("vocabs")]
    if len(named) == 2:
        return named[0], named[1]
    if named:
        raise CheckpointError(f"{folder} names {len(named)} vocabularies, but there should be a source and a target")
    lists = [path for path in _files_with(folder, TOKEN_LISTS) if "vocab" in path.name]
    pair = _pair(lists) or _pair(_files_with(folder, SENTENCEPIECE))
    if pair is None:
        raise CheckpointError(
            f"{folder} has no vocabulary: expected one .spm or .yml file with 'vocab' in its name, two with 'src' and "
            "'trg' in their names, or a decoder.yml that names them"
        )
    return pair


def _pair(files: list[Path]) -> tuple[Path, Path] | None:
    """Return one file for both sides, or one for each, recognized by their names."""
    if len(files) == 1:
        return files[0], files[0]
    sides = [[path for path in files if side.search(path.name.lower())] for side in SIDES]
    return (sides[0][0], sides[1][0]) if [len(side) for side in sides] == [1, 1] else None


def _files_with(folder: Path, suffixes: Iterable[str]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in suffixes and path.is_file())


def _in_folder(folder: Path, name: str) -> Path:
    """Return a file by its path in the folder, or by its name alone, since models are copied without their paths."""
    if not Path(name).is_absolute() and ".." not in Path(name).parts and (folder / name).is_file():
        return folder / name
    return folder / PureWindowsPath(PurePosixPath(name).name).name


def _has_embedded_settings(path: Path) -> bool:
    try:
        with ZipFile(path) as archive:
            return CONFIG + NPY in archive.namelist()
    except NOT_A_ZIP:
        return False


def read_archive(path: Path) -> Items:
    """Read an ``.npz`` file."""
    items: Items = {}
    with _open_archive(path) as archive:
        members = archive.infolist()
        size, limit = sum(member.file_size for member in members), MAX_RATIO * path.stat().st_size
        if size > limit:
            raise broken(path, f"its content would take {size:,} bytes, more than the {limit:,} that weights can take")
        for member in members:
            name = member.filename.removesuffix(NPY)
            if name in items:
                raise broken(path, f"{name!r} is stored twice")
            with archive.open(member) as content:
                items[name] = _read_array(path, name, member, content)
    return items


@contextmanager
def _open_archive(path: Path) -> Iterator[ZipFile]:
    try:
        with ZipFile(path) as archive:
            yield archive
    except CheckpointError:
        raise
    except NOT_A_ZIP as error:
        raise CheckpointError(f"{path} cannot be read as an archive of numpy arrays ({error})") from None


def _read_array(path: Path, name: str, member: ZipInfo, content: IO[bytes]) -> Item:
    """Read one array; its shape is checked against the size of the member before memory is allocated."""
    version = npy.read_magic(content)
    if version not in ((1, 0), (2, 0)):
        raise broken(path, f"{name!r} is written in version {version} of numpy's format")
    shape, by_columns, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(content)
    kind = dtype.str[1:]
    if kind not in TYPES or dtype.str[0] == ">" or by_columns:
        raise broken(path, f"{name!r} has dtype {dtype}{' by columns' if by_columns else ''}, expected plain numbers")
    size = math.prod(shape) * dtype.itemsize
    if size != member.file_size - content.tell():
        raise broken(path, f"{name!r} has {member.file_size:,} bytes, which does not match its shape {shape}")
    array: Any = np.frombuffer(content.read(size), np.uint8)
    return Item(TYPES[kind], tuple(shape) or (1,), array)


def begins_as_marian(path: Path) -> bool:
    """Return whether a file begins like Marian's ``.bin`` format."""
    try:
        with path.open("rb") as file:
            return file.read(8) == VERSION.to_bytes(8, "little")
    except OSError:
        return False


def read_binary(path: Path) -> Items:
    """Read a ``.bin`` file."""
    reader = _BinaryReader(path)
    version, count = reader.integers(2)
    if version != VERSION:
        raise CheckpointError(f"{path} is not a model of Marian: it begins with version {version}, expected {VERSION}")
    fields = iter(reader.integers(count * HEADER_FIELDS))
    headers = list(zip(fields, fields, fields, fields, strict=True))
    names = [reader.name(length) for length, *_ in headers]
    shapes = [reader.shape(rank) for _, _, rank, _ in headers]
    reader.take(*reader.integers(1))
    items: Items = {}
    for name, (_, kind, _, size), shape in zip(names, headers, shapes, strict=True):
        if name in items:
            raise broken(path, f"{name!r} is stored twice")
        items[name] = Item(kind, shape, reader.take(size))
    reader.check_end()
    return items


class _BinaryReader:
    """Reads the fields of a file that may be truncated or of another format."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0
        try:
            self.content = np.memmap(path, np.uint8, "r")
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise CheckpointError(f"{path} cannot be read ({error})") from None

    def take(self, count: int) -> NDArray[np.uint8]:
        left = len(self.content) - self.offset
        if count > left:
            raise broken(self.path, f"expected {count:,} bytes at byte {self.offset:,}, but {left:,} are left")
        self.offset += count
        return self.content[self.offset - count : self.offset]

    def integers(self, count: int) -> list[int]:
        values: list[int] = np.frombuffer(self.take(count * 8).tobytes(), "<u8").tolist()
        return values

    def name(self, length: int) -> str:
        offset, content = self.offset, self.take(length).tobytes()
        try:
            name = content.removesuffix(b"\0").decode()
        except UnicodeDecodeError:
            name = ""
        if not name or not name.isprintable():
            raise broken(self.path, f"expected a name at byte {offset:,}")
        return name

    def shape(self, rank: int) -> tuple[int, ...]:
        offset = self.offset
        shape = tuple(np.frombuffer(self.take(rank * 4).tobytes(), "<i4").tolist())
        if not shape or min(shape) < 1:
            raise broken(self.path, f"expected a shape at byte {offset:,}, found {shape}")
        return shape

    def check_end(self) -> None:
        if self.offset < len(self.content):
            raise broken(self.path, f"{len(self.content) - self.offset:,} bytes are left at its end")
