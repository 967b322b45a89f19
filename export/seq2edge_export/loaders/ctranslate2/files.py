"""Where the files of a CTranslate2 model are: in one folder, or in a package of Argos Translate.

Read CTranslate2's ``model.bin``: arrays with names, and nothing that runs.

Little-endian. A text is its length with the closing zero (2 bytes), its UTF-8, and the zero.

::

    binary version (4 bytes), specification (text), its revision (4 bytes)
    number of variables (4 bytes), each: name (text), rank (1), sizes (4 each), type (1), bytes (4), content
    number of aliases (4 bytes), each: another name (text) for a variable (text)

Before version 4 the type is the size of an item and the bytes are a number of items; before version 3 there are no
aliases. Every length is held against what is left of the file before anything is read or made.
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
WANTED = re.compile(
    r"(.*/)?(model\.bin|config\.json|metadata\.json|README\.md|.*_vocabulary\.(json|txt)|.*\.(model|spm))"
)
PIECES = (".model", ".spm")  # how SentencePiece models end
SIDES = {"source": re.compile(r"(src|source)[._-]"), "target": re.compile(r"(tgt|trg|target)[._-]")}
LARGEST = 32  # times what is packed: weights cannot be packed much, and a trap can
SMALL = 10_000_000  # bytes of which nobody takes harm
ATTRIBUTION = 2000  # characters of a package's README


@dataclass(frozen=True)
class Package:
    """The files of a model, and what a package says about it."""

    model: Path  # the folder with model.bin
    source_pieces: Path  # SentencePiece models
    target_pieces: Path
    languages: tuple[str, str] = ("", "")
    attribution: str = ""


def is_package(path: Path) -> bool:
    """Whether it is a model folder, or an Argos package as a file or unpacked."""
    return path.suffix == ARGOS or (path / MODEL).is_file() or (path / INNER / MODEL).is_file()


def open_package(path: Path) -> Package:
    """Find the files; those of a packed package are unpacked for as long as the program runs."""
    folder = unpack(path) if path.is_file() else path
    model = folder if (folder / MODEL).is_file() else folder / INNER
    source, target = find_pieces(folder, model)
    return Package(model, source, target, _languages(folder / METADATA), _attribution(folder))


def unpack(path: Path) -> Path:
    """The folder of a packed Argos package, with what is needed of it."""
    folder = Path(tempfile.mkdtemp(prefix="seq2edge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        with ZipFile(path) as archive:
            members = list(_wanted(archive))
            size, free = sum(member.file_size for member in members), shutil.disk_usage(folder).free
            packed = sum(member.compress_size for member in members)
            if size > LARGEST * packed + SMALL:
                raise CheckpointError(
                    f"{path} has {packed:,} bytes that become {size:,}, which no package of weights does"
                )
            if size > free:
                raise CheckpointError(f"{path} takes {size:,} bytes unpacked, but {folder.parent} has {free:,} left")
            archive.extractall(folder, members)
    except (BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error) as error:
        raise CheckpointError(f"{path} cannot be unpacked as an Argos package, which is a zip file ({error})") from None
    found = sorted(folder.glob(f"**/{INNER}/{MODEL}"))
    if len(found) != 1:
        raise CheckpointError(f"{path} holds {len(found)} files named {INNER}/{MODEL}, but an Argos package has one")
    return found[0].parent.parent


def _wanted(archive: ZipFile) -> Iterator[ZipInfo]:
    """What a model is made of; a package brings other things too, such as sentence splitters."""
    for member in archive.infolist():
        if len(PurePosixPath(member.filename).parts) <= 3 and WANTED.fullmatch(member.filename):
            yield member


def find_pieces(*folders: Path) -> tuple[Path, Path]:
    """One SentencePiece model for both sides, or one for each, told by their names."""
    for folder in folders:
        found = sorted(path for path in folder.iterdir() if path.suffix in PIECES and path.is_file())
        sides = [[path for path in found if SIDES[side].match(path.name.lower())] for side in SIDES]
        if len(found) == 1:
            return found[0], found[0]
        if [len(side) for side in sides] == [1, 1]:
            return sides[0][0], sides[1][0]
        if found:
            names = ", ".join(path.name for path in found)
            raise CheckpointError(f"{folder} has {names}; leave one SentencePiece model, or source.spm and target.spm")
    raise CheckpointError(
        f"{folders[0]} has no SentencePiece model; copy there the one that the model was trained with, "
        "as sentencepiece.model, or as source.spm and target.spm"
    )


def _languages(path: Path) -> tuple[str, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON in UTF-8 ({error})") from None
    codes = [content.get(key) if isinstance(content, dict) else None for key in ("from_code", "to_code")]
    source, target = (code if isinstance(code, str) else "" for code in codes)
    return source, target


def _attribution(folder: Path) -> str:
    """What a package says in its README: whom to name, and the terms."""
    if not (folder / README).is_file() or not (folder / METADATA).is_file():
        return ""
    return " ".join((folder / README).read_text(encoding="utf-8", errors="replace").split())[:ATTRIBUTION]


VERSIONS, REVISIONS = range(2, 7), range(2, 8)
HEADS = {"TransformerBase": 8, "TransformerBig": 16, "TransformerSpec": 8}  # by specification, where nothing says it
TYPES = (np.float32, np.int8, np.int16, np.int32, np.float16, np.uint16)  # the last holds bfloat16
BFLOAT16 = 5
OLD_TYPES = {4: 0, 2: 2, 1: 1}  # by the size of an item
SCALE = "_scale"  # behind the name of a weight: what its integers were multiplied by

Array = NDArray[Any]
Variables = dict[str, Array]


@dataclass(frozen=True)
class Binary:
    """The content of a model file; an array that has two names is there once."""

    version: int
    spec: str
    revision: int
    variables: Variables


def read_binary(path: Path) -> Binary:
    """Read the file of an encoder-decoder Transformer."""
    reader = _Reader(path)
    version = reader.number("I")
    if version not in VERSIONS:
        raise CheckpointError(
            f"{path} is no model of CTranslate2, or of another time: it begins with version {version}, "
            f"but {VERSIONS[0]} to {VERSIONS[-1]} can be read"
        )
    spec, revision = reader.text(), reader.number("I")
    if spec not in HEADS or revision not in REVISIONS:
        raise CheckpointError(
            f"{path} holds a {spec!r} of revision {revision}, but an encoder-decoder Transformer is wanted, "
            f"a 'TransformerSpec' of revision {REVISIONS[0]} to {REVISIONS[-1]}"
        )
    variables = reader.variables(version)
    if version >= 3:
        reader.add_aliases(variables)
    reader.check_end()
    return Binary(version, spec, revision, variables)


class _Reader:
    """Takes one thing after another from a file that may be cut, or anything else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place = 0
        try:
            self.content = np.memmap(path, np.uint8, "r")
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise CheckpointError(f"{path} cannot be read ({error})") from None

    def take(self, count: int) -> NDArray[np.uint8]:
        end = self.place + count
        if end > len(self.content):
            raise self.broken(f"{count:,} bytes should follow at byte {self.place:,}, but {self.left:,} are left")
        taken = self.content[self.place : end]
        self.place = end
        return taken

    def number(self, kind: str) -> int:
        """One number, with the letter that it has in ``struct``."""
        (value,) = struct.unpack(f"<{kind}", self.take(struct.calcsize(kind)).tobytes())
        return int(value)

    def text(self) -> str:
        place = self.place
        content = self.take(self.number("H")).tobytes()
        try:
            name = content.removesuffix(b"\0").decode()
        except UnicodeDecodeError:
            raise self.broken(f"a name should stand at byte {place:,}, but it is not UTF-8") from None
        if not name.isprintable():
            raise self.broken(f"a name should stand at byte {place:,}, but it is {name!a}")
        return name

    def variables(self, version: int) -> Variables:
        found: Variables = {}
        for _ in range(self.number("I")):
            name = self.text()
            if name in found:
                raise self.broken(f"{name!r} is there twice")
            found[name] = self._array(name, version)
        return found

    def _array(self, name: str, version: int) -> Array:
        shape = tuple(self.number("I") for _ in range(self.number("B")))
        kind, size = self.number("B"), self.number("I")
        if version < 4:
            kind, size = OLD_TYPES.get(kind, len(TYPES)), size * kind
        if kind >= len(TYPES):
            raise self.broken(f"{name!r} is of the type {kind}, which is not known")
        if size != math.prod(shape) * np.dtype(TYPES[kind]).itemsize:
            raise self.broken(f"{name!r} has {size:,} bytes, which is not what its shape {shape} takes")
        array: Array = self.take(size).view(TYPES[kind]).reshape(shape)
        return _widened(array) if kind == BFLOAT16 else array

    def add_aliases(self, variables: Variables) -> None:
        for _ in range(self.number("I")):
            alias, name = self.text(), self.text()
            if name not in variables or alias in variables:
                raise self.broken(f"{alias!r} should be another name for {name!r}, which cannot be")
            variables[alias] = variables[name]
            if name + SCALE in variables:
                variables[alias + SCALE] = variables[name + SCALE]

    def check_end(self) -> None:
        if self.left:
            raise self.broken(f"{self.left:,} bytes are left at its end")

    @property
    def left(self) -> int:
        return len(self.content) - self.place

    def broken(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path} is broken: {what}; copy or convert the model again")


def _widened(halves: NDArray[np.uint16]) -> NDArray[np.float32]:
    """A bfloat16 is the upper half of a float32."""
    wide: NDArray[np.float32] = (halves.astype(np.uint32) << 16).view(np.float32)
    return wide
