"""Find and read the files of a CTranslate2 model, in a folder or in a package of Argos Translate.

``model.bin`` is little-endian. A string is its length with the closing zero (2 bytes), its UTF-8, and the zero::

    binary version (4 bytes), specification (string), its revision (4 bytes)
    number of variables (4 bytes), each: name (string), rank (1), sizes (4 each), type (1), bytes (4), content
    number of aliases (4 bytes), each: another name (string) for a variable (string)

Before version 4 the type is the size of an item and the bytes are the number of items; before version 3 there are no
aliases. Every length is checked against the size of the file before anything is read or allocated.
"""

import atexit
import json
import math
import re
import shutil
import struct
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from seq2edge.errors import CheckpointError

MODEL = "model.bin"
METADATA, README, INNER = "metadata.json", "README.md", "model"
ARGOS = ".argosmodel"
MEMBERS = re.compile(  # the files of a package that are unpacked
    r"(.*/)?(model\.bin|config\.json|metadata\.json|README\.md|.*_vocabulary\.(json|txt)|.*\.(model|spm))"
)
MAX_RATIO = 32  # of unpacked to packed size: weights hardly compress, so more is a zip bomb
HARMLESS = 10_000_000  # unpacked bytes that are never refused
MAX_ATTRIBUTION = 2000  # characters of a package's README
VERSIONS, REVISIONS = range(2, 7), range(2, 8)
HEADS = {"TransformerBase": 8, "TransformerBig": 16, "TransformerSpec": 8}  # defaults by specification
TYPES = (np.float32, np.int8, np.int16, np.int32, np.float16, np.uint16)  # the last one holds bfloat16
BFLOAT16 = 5
MAX_RANK = 8  # more than any model has; numpy refuses more than 64
OLD_TYPES = {4: 0, 2: 2, 1: 1}  # item size -> type
SCALE = "_scale"  # suffix of the quantization scale of a weight

Array = NDArray[Any]
Variables = dict[str, Array]


@dataclass(frozen=True)
class Package:
    """The files of a model, with the languages and the attribution of a package."""

    folder: Path
    model: Path  # the folder with model.bin
    languages: tuple[str, str] = ("", "")
    attribution: str = ""


@dataclass(frozen=True)
class Binary:
    """The content of ``model.bin``; an alias is the same array under another name."""

    version: int
    spec: str
    revision: int
    variables: Variables


def is_package(path: Path) -> bool:
    """Return whether a path is a model folder, or an Argos package as a file or unpacked."""
    return path.suffix == ARGOS or (path / MODEL).is_file() or (path / INNER / MODEL).is_file()


def open_package(path: Path) -> Package:
    """Find the files; a packed package is unpacked until the program ends."""
    folder = unpack(path) if path.is_file() else path
    model = folder if (folder / MODEL).is_file() else folder / INNER
    return Package(folder, model, _languages(folder / METADATA), _attribution(folder))


def unpack(path: Path) -> Path:
    """Unpack the needed files of an Argos package and return their folder."""
    folder = Path(tempfile.mkdtemp(prefix="seq2edge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        with ZipFile(path) as archive:
            members = list(_needed(archive))
            size, free = sum(member.file_size for member in members), shutil.disk_usage(folder).free
            packed = sum(member.compress_size for member in members)
            if size > MAX_RATIO * packed + HARMLESS:
                raise CheckpointError(f"{path} has {packed:,} bytes that unpack to {size:,}, which weights never do")
            if size > free:
                raise CheckpointError(f"{path} needs {size:,} bytes unpacked, but {folder.parent} has {free:,} left")
            archive.extractall(folder, members)
    except (BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error) as error:
        raise CheckpointError(f"{path} cannot be unpacked as an Argos package, which is a zip file ({error})") from None
    models = sorted(folder.glob(f"**/{INNER}/{MODEL}"))
    if len(models) != 1:
        raise CheckpointError(f"{path} holds {len(models)} files named {INNER}/{MODEL}, but an Argos package has one")
    return models[0].parent.parent


def _needed(archive: ZipFile) -> Iterator[ZipInfo]:
    """Yield the files of the model; a package has others too, such as sentence splitters."""
    for member in archive.infolist():
        if len(PurePosixPath(member.filename).parts) <= 3 and MEMBERS.fullmatch(member.filename):
            yield member


def _languages(path: Path) -> tuple[str, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON in UTF-8 ({error})") from None
    codes = [content.get(key) if isinstance(content, dict) else None for key in ("from_code", "to_code")]
    source, target = (code if isinstance(code, str) else "" for code in codes)
    return source, target


def _attribution(folder: Path) -> str:
    """Return the README of a package, which names the authors and the terms."""
    if not (folder / README).is_file() or not (folder / METADATA).is_file():
        return ""
    return " ".join((folder / README).read_text(encoding="utf-8", errors="replace").split())[:MAX_ATTRIBUTION]


def read_binary(path: Path) -> Binary:
    """Read the file of an encoder-decoder Transformer."""
    reader = _Reader(path)
    version = reader.integer("I")
    if version not in VERSIONS:
        raise CheckpointError(
            f"{path} is not a model of a supported CTranslate2 version: it begins with version {version}, "
            f"expected {VERSIONS[0]} to {VERSIONS[-1]}"
        )
    spec, revision = reader.text(), reader.integer("I")
    if spec not in HEADS or revision not in REVISIONS:
        raise CheckpointError(
            f"{path} holds a {spec!r} of revision {revision}, expected an encoder-decoder Transformer, "
            f"a 'TransformerSpec' of revision {REVISIONS[0]} to {REVISIONS[-1]}"
        )
    variables = reader.variables(version)
    if version >= 3:
        reader.add_aliases(variables)
    reader.check_end()
    return Binary(version, spec, revision, variables)


class _Reader:
    """Reads the fields of a file that may be truncated or of another format."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        try:
            self.content = np.memmap(path, np.uint8, "r")
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise CheckpointError(f"{path} cannot be read ({error})") from None

    def take(self, count: int) -> NDArray[np.uint8]:
        end = self.offset + count
        if end > len(self.content):
            raise self.broken(f"expected {count:,} bytes at byte {self.offset:,}, but {self.left:,} are left")
        taken = self.content[self.offset : end]
        self.offset = end
        return taken

    def integer(self, kind: str) -> int:
        """Read an integer by its format character of ``struct``."""
        (value,) = struct.unpack(f"<{kind}", self.take(struct.calcsize(kind)).tobytes())
        return int(value)

    def text(self) -> str:
        offset = self.offset
        content = self.take(self.integer("H")).tobytes()
        try:
            name = content.removesuffix(b"\0").decode()
        except UnicodeDecodeError:
            raise self.broken(f"the name at byte {offset:,} is not UTF-8") from None
        if not name.isprintable():
            raise self.broken(f"expected a name at byte {offset:,}, found {name!a}")
        return name

    def variables(self, version: int) -> Variables:
        variables: Variables = {}
        for _ in range(self.integer("I")):
            name = self.text()
            if name in variables:
                raise self.broken(f"{name!r} is stored twice")
            variables[name] = self._array(name, version)
        return variables

    def _array(self, name: str, version: int) -> Array:
        rank = self.integer("B")
        if rank > MAX_RANK:
            raise self.broken(f"{name!r} has {rank} axes")
        shape = tuple(self.integer("I") for _ in range(rank))
        kind, size = self.integer("B"), self.integer("I")
        if version < 4:
            kind, size = OLD_TYPES.get(kind, len(TYPES)), size * kind
        if kind >= len(TYPES):
            raise self.broken(f"{name!r} has the unknown type {kind}")
        if size != math.prod(shape) * np.dtype(TYPES[kind]).itemsize:
            raise self.broken(f"{name!r} has {size:,} bytes, which does not match its shape {shape}")
        array: Array = self.take(size).view(TYPES[kind]).reshape(shape)
        return _bfloat16_to_float32(array) if kind == BFLOAT16 else array

    def add_aliases(self, variables: Variables) -> None:
        for _ in range(self.integer("I")):
            alias, name = self.text(), self.text()
            if name not in variables or alias in variables:
                raise self.broken(f"{alias!r} cannot be an alias of {name!r}")
            variables[alias] = variables[name]
            if name + SCALE in variables:
                variables[alias + SCALE] = variables[name + SCALE]

    def check_end(self) -> None:
        if self.left:
            raise self.broken(f"{self.left:,} bytes are left at its end")

    @property
    def left(self) -> int:
        return len(self.content) - self.offset

    def broken(self, reason: str) -> CheckpointError:
        return CheckpointError(f"{self.path} is broken: {reason}; copy or convert the model again")


def _bfloat16_to_float32(halves: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Convert bfloat16, which is the upper half of a float32."""
    floats: NDArray[np.float32] = (halves.astype(np.uint32) << 16).view(np.float32)
    return floats
