"""Marian's tensors as float32, in the layout that torch has; needs torch.

Integers are those of intgemm, with what they were multiplied by as a float behind them. They are stored transposed, but
for embeddings; in the formats that are prepared for one kind of processor, eight columns at a time are cut into pieces
as long as a register.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2edge_export.marian.items import Item, Items, broken
from seq2edge_export.state_dict import StateDict

FLOATS = {0x402: "<f2", 0x404: "<f4", 0x408: "<f8"}
# type -> integers, and the bytes of a register that they are prepared for; 0x41.. is Bergamot's Marian
INTEGERS = {
    0x4101: ("<i1", 0),
    0x4102: ("<i2", 0),
    0x10001: ("<i1", 0),
    0x10002: ("<i2", 0),
    0x18001: ("<i1", 16),  # SSSE3
    0x11001: ("<i1", 32),  # AVX2
    0x12001: ("<i1", 64),  # AVX512
    0x13001: ("<i1", 64),  # AVX512 with VNNI
    0x14002: ("<i2", 16),  # SSE2
    0x11002: ("<i2", 32),
    0x12002: ("<i2", 64),
}
PACKED = {0x802: "packed16", 0x1801: "packed8avx2", 0x2801: "packed8avx512"}
COLUMNS = 8  # that are cut together
# how activations are rounded, and texts: no weights
OTHERS = ("_QuantMultA", "_QuantMultB")
SPECIAL = "special:"
EMBEDDING, OUTPUT = "Wemb", "_Wt"  # one row a token, as in torch

Array = NDArray[Any]


def is_weight(name: str) -> bool:
    return not name.startswith(SPECIAL) and not name.endswith(OTHERS)


def unreadable(items: Items) -> list[str]:
    """The kinds of weights that cannot be read, each once."""
    kinds = {item.type for name, item in items.items() if is_weight(name)} - FLOATS.keys() - INTEGERS.keys()
    packed = [f"weights that FBGEMM has packed ({PACKED[kind]})" for kind in sorted(kinds & PACKED.keys())]
    return packed + [f"weights of the type {kind:#x}" for kind in sorted(kinds - PACKED.keys())]


def widen(path: Path, items: Items) -> StateDict:
    """Every weight as torch would have it: vectors with one axis, linear layers with one row an output."""
    return {name: torch.from_numpy(_laid_out(path, name, item)) for name, item in items.items() if is_weight(name)}


def _laid_out(path: Path, name: str, item: Item) -> Array:
    numbers = _floats(path, name, item) if item.type in FLOATS else _widened_integers(path, name, item)
    if numbers.shape[0] == 1 and numbers.ndim == 2:
        numbers = numbers[0]
    elif numbers.ndim == 2 and not name.endswith((EMBEDDING, OUTPUT)):
        numbers = numbers.T
    with np.errstate(all="ignore"):  # what is then infinite is refused with its name
        return np.array(numbers, np.float32, order="C")  # a copy, as the file is mapped


def _floats(path: Path, name: str, item: Item) -> Array:
    dtype = np.dtype(FLOATS[item.type])
    return _taken(path, name, item, dtype, 0).view(dtype).reshape(item.shape)


def _widened_integers(path: Path, name: str, item: Item) -> Array:
    kind, register = INTEGERS[item.type]
    dtype = np.dtype(kind)
    content = _taken(path, name, item, dtype, 4)
    integers, scale = content[:-4].view(dtype), content[-4:].copy().view("<f4")[0]
    if len(item.shape) != 2 or not np.isfinite(scale) or scale <= 0:
        raise broken(path, f"{name!r} holds integers with the shape {item.shape} and the scale {scale}")
    with np.errstate(all="ignore"):
        return _matrix(path, name, integers, item.shape, register // dtype.itemsize) * (np.float32(1) / scale)


def _matrix(path: Path, name: str, integers: Array, shape: tuple[int, ...], length: int) -> Array:
    """The matrix itself, as float32 (rows, columns)."""
    rows, columns = shape
    wide = integers.astype(np.float32)
    if EMBEDDING in name:
        return wide.reshape(rows, columns)
    if not length:
        return wide.reshape(columns, rows).T
    if rows % length or columns % COLUMNS:
        raise broken(path, f"{name!r} has the shape {shape}, which pieces of {length} by {COLUMNS} do not fill")
    pieces = wide.reshape(columns // COLUMNS, rows // length, COLUMNS, length)
    return pieces.transpose(1, 3, 0, 2).reshape(rows, columns)


def _taken(path: Path, name: str, item: Item, dtype: np.dtype[Any], more: int) -> Array:
    """The bytes that the shape takes, and some more; a file may fill up what follows."""
    size = dtype.itemsize * int(np.prod(item.shape, dtype=object)) + more
    if len(item.content) < size:
        raise broken(path, f"{name!r} has {len(item.content):,} bytes, but its shape {item.shape} takes {size:,}")
    return np.asarray(item.content[:size])
