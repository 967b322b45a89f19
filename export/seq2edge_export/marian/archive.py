"""Read Marian's ``.npz`` files: numpy's arrays in a zip file, numbers alone: nothing is unpickled; needs numpy."""

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy

from seq2edge.errors import CheckpointError
from seq2edge_export.marian.items import CONFIG, Item, Items, broken

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
