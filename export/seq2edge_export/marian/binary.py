"""Read Marian's ``.bin`` files: tensors with names, and nothing that runs; needs numpy.

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

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2edge.errors import CheckpointError
from seq2edge_export.marian.items import Item, Items, broken

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
    reader = _Reader(path)
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


class _Reader:
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
