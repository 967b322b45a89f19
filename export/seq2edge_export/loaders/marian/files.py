"""Which files belong to a Marian model: itself, the settings of its search, its vocabularies.

The tensors of a Marian model file as it names them, whichever of the two formats it has.

Read Marian's ``.npz`` files: numpy's arrays in a zip file, numbers alone: nothing is unpickled.

Read Marian's ``.bin`` files: tensors with names, and nothing that runs.

Little-endian.

::

    version (8 bytes, 1), number of tensors N (8)
    N headers: length of the name, type, rank, bytes of the content (8 each)
    N names, each with a closing zero
    N shapes, 4 bytes a size
    length of a gap (8 bytes), the gap
    N contents, mostly filled up to a multiple of 256 bytes

Every length is held against what is left of the file before anything is read or made.
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
from seq2edge_export.loaders.marian.config import Mapping, MarianSettings, read_yaml

CONFIG = "special:model.yml"
NPZ, BIN = ".npz", ".bin"


@dataclass(frozen=True)
class Item:
    """A tensor before it is understood: its bytes, and Marian's number for what they are."""

    type: int
    shape: tuple[int, ...]
    content: NDArray[Any]  # uint8, and there may be more of them than the shape takes


Items = dict[str, Item]


def broken(path: Path, what: str) -> CheckpointError:
    return CheckpointError(f"{path} is broken: {what}; copy or convert the model again")


SUFFIX = ".npy"
# Marian's numbers for the types, by numpy's
TYPES = {"f2": 0x402, "f4": 0x404, "f8": 0x408, "i1": 0x101, "i4": 0x104, "u1": 0x201, "u4": 0x204}
LARGEST = 64  # times the file's own size: weights cannot be packed much, and a trap can
NOT_A_ZIP = (BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, TokenError, zlib.error)


def holds_marian(path: Path) -> bool:
    """Whether a file is one of these, by the settings that it should hold."""
    try:
        with ZipFile(path) as archive:
            return CONFIG + SUFFIX in archive.namelist()
    except NOT_A_ZIP:
        return False


def read_archive(path: Path) -> Items:
    found: Items = {}
    with _opened(path) as archive:
        members = archive.infolist()
        total, most = sum(member.file_size for member in members), LARGEST * path.stat().st_size
        if total > most:
            raise broken(path, f"it should hold {total:,} bytes, which is more than {most:,}, as weights can at most")
        for member in members:
            name = member.filename.removesuffix(SUFFIX)
            if name in found:
                raise broken(path, f"{name!r} is there twice")
            with archive.open(member) as content:
                found[name] = _item(path, name, member, content)
    return found


@contextmanager
def _opened(path: Path) -> Iterator[ZipFile]:
    try:
        with ZipFile(path) as archive:
            yield archive
    except CheckpointError:
        raise
    except NOT_A_ZIP as error:
        raise CheckpointError(f"{path} cannot be read as an archive of numpy arrays ({error})") from None


def _item(path: Path, name: str, member: ZipInfo, content: IO[bytes]) -> Item:
    """One array; its shape must be what the rest of the member takes before any memory is asked for."""
    version = npy.read_magic(content)
    if version not in ((1, 0), (2, 0)):
        raise broken(path, f"{name!r} is written in version {version} of numpy's format")
    shape, by_columns, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(content)
    kind = dtype.str[1:]
    if kind not in TYPES or dtype.str[0] == ">" or by_columns:
        raise broken(path, f"{name!r} holds {dtype}{' by columns' if by_columns else ''} instead of plain numbers")
    size = math.prod(shape) * dtype.itemsize
    if size != member.file_size - content.tell():
        raise broken(path, f"{name!r} has {member.file_size:,} bytes, which is not what its shape {shape} takes")
    numbers: Any = np.frombuffer(content.read(size), np.uint8)
    return Item(TYPES[kind], tuple(shape) or (1,), numbers)


VERSION = 1
HEADER = 4  # numbers


def begins_as_marian(path: Path) -> bool:
    """Whether a file is one of these, as far as its first bytes tell."""
    try:
        with path.open("rb") as file:
            return file.read(8) == VERSION.to_bytes(8, "little")
    except OSError:
        return False


def read_binary(path: Path) -> Items:
    reader = _BinaryReader(path)
    version, count = reader.numbers(2)
    if version != VERSION:
        raise CheckpointError(f"{path} is no model of Marian: it begins with version {version} instead of {VERSION}")
    numbers = iter(reader.numbers(count * HEADER))
    headers = list(zip(numbers, numbers, numbers, numbers, strict=True))
    names = [reader.name(length) for length, *_ in headers]
    shapes = [reader.shape(rank) for _, _, rank, _ in headers]
    reader.take(*reader.numbers(1))
    found: Items = {}
    for name, (_, kind, _, size), shape in zip(names, headers, shapes, strict=True):
        if name in found:
            raise broken(path, f"{name!r} is there twice")
        found[name] = Item(kind, shape, reader.take(size))
    reader.check_end()
    return found


class _BinaryReader:
    """Takes one thing after another from a file that may be cut, or anything else."""

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, 0
        try:
            self.content = np.memmap(path, np.uint8, "r")
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise CheckpointError(f"{path} cannot be read ({error})") from None

    def take(self, count: int) -> NDArray[np.uint8]:
        left = len(self.content) - self.place
        if count > left:
            raise broken(self.path, f"{count:,} bytes should follow at byte {self.place:,}, but {left:,} are left")
        self.place += count
        return self.content[self.place - count : self.place]

    def numbers(self, count: int) -> list[int]:
        found: list[int] = np.frombuffer(self.take(count * 8).tobytes(), "<u8").tolist()
        return found

    def name(self, length: int) -> str:
        place, content = self.place, self.take(length).tobytes()
        try:
            name = content.removesuffix(b"\0").decode()
        except UnicodeDecodeError:
            name = ""
        if not name or not name.isprintable():
            raise broken(self.path, f"a name should stand at byte {place:,}")
        return name

    def shape(self, rank: int) -> tuple[int, ...]:
        place = self.place
        shape = tuple(np.frombuffer(self.take(rank * 4).tobytes(), "<i4").tolist())
        if not shape or min(shape) < 1:
            raise broken(self.path, f"a shape should stand at byte {place:,}, but it is {shape}")
        return shape

    def check_end(self) -> None:
        if self.place < len(self.content):
            raise broken(self.path, f"{len(self.content) - self.place:,} bytes are left at its end")


CONFIGS = ("decoder.yml", "config.yml", "*.decoder.yml", "config.*.yml")  # in this order
PIECES, LISTS = (".spm",), (".yml", ".yaml", ".json")
SIDES = (re.compile(r"(^|[._-])(src|source)(?=vocab|[._-])"), re.compile(r"(^|[._-])(trg|tgt|target)(?=vocab|[._-])"))


@dataclass(frozen=True)
class MarianFiles:
    """The files by their paths."""

    model: Path
    search: Mapping  # what the settings beside the model say; empty if there are none
    vocabularies: tuple[Path, Path]
    pieces: tuple[Path, Path] | None  # SentencePiece models that cut for vocabularies which are lists


def is_model(path: Path) -> bool:
    """Whether it is a model file, or a folder that holds one."""
    return _is_model_file(path) if path.is_file() else path.is_dir() and bool(_models(path))


def find_files(path: Path) -> MarianFiles:
    folder = path.parent if path.is_file() else path
    config = _config(folder, path)
    search = read_yaml(config) if config else {}
    model = path if path.is_file() else _model(folder, search)
    source, target = _vocabularies(folder, search)
    is_list = any(file.suffix not in PIECES for file in (source, target))
    return MarianFiles(model, search, (source, target), _pair(_with(folder, PIECES)) if is_list else None)


def _config(folder: Path, path: Path) -> Path | None:
    names = (f"{path.name}.decoder.yml", *CONFIGS) if path.is_file() else CONFIGS
    return next((found for name in names for found in sorted(folder.glob(name)) if found.is_file()), None)


def _model(folder: Path, search: Mapping) -> Path:
    named = MarianSettings(search, []).texts("models")
    if len(named) > 1:
        raise CheckpointError(f"{folder} is an ensemble of {len(named)} models; name the file of one of them")
    found = [_beside(folder, named[0])] if named else _models(folder)
    if len(found) != 1 or not found[0].is_file():
        names = ", ".join(path.name for path in found) or "none"
        raise CheckpointError(f"{folder} should hold one model of Marian (.npz or .bin), but there is {names}")
    return found[0]


def _models(folder: Path) -> list[Path]:
    return [path for path in _with(folder, (NPZ, BIN)) if _is_model_file(path)]


def _is_model_file(path: Path) -> bool:
    return holds_marian(path) if path.suffix == NPZ else path.suffix == BIN and begins_as_marian(path)


def _vocabularies(folder: Path, search: Mapping) -> tuple[Path, Path]:
    """The two that the settings name, else what is in the folder: one for both sides, or one a side."""
    named = [_beside(folder, name) for name in MarianSettings(search, []).texts("vocabs")]
    if len(named) == 2:
        return named[0], named[1]
    if named:
        raise CheckpointError(f"{folder} names {len(named)} vocabularies, but there should be a source and a target")
    lists = [path for path in _with(folder, LISTS) if "vocab" in path.name]
    found = _pair(lists) or _pair(_with(folder, PIECES))
    if found is None:
        raise CheckpointError(
            f"{folder} has no vocabulary: one .spm or .yml file is wanted whose name holds 'vocab', or two with 'src' "
            "and 'trg' in their names, or a decoder.yml that names them"
        )
    return found


def _pair(found: list[Path]) -> tuple[Path, Path] | None:
    """One file for both sides, or those whose names tell the side."""
    if len(found) == 1:
        return found[0], found[0]
    sides = [[path for path in found if side.search(path.name.lower())] for side in SIDES]
    return (sides[0][0], sides[1][0]) if [len(side) for side in sides] == [1, 1] else None


def _with(folder: Path, suffixes: Iterable[str]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in suffixes and path.is_file())


def _beside(folder: Path, name: str) -> Path:
    """A file of the folder: by its path from there, or by its name alone, as models travel without their paths."""
    if not Path(name).is_absolute() and ".." not in Path(name).parts and (folder / name).is_file():
        return folder / name
    return folder / PureWindowsPath(PurePosixPath(name).name).name
