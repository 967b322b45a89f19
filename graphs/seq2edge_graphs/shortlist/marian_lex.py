"""Read the lexical shortlists of Marian and Bergamot, ``lex.s2t.bin``.

The header has six 64-bit numbers: a signature, a checksum of everything after it, the number of first target tokens
that are always allowed, the length of the lists, the number of offsets, and the number of listed target tokens. Then
come the 64-bit offsets, one for each source token and one for the end, and the 32-bit target tokens.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2edge.engine.shortlist import Shortlist, shortlist_of
from seq2edge.errors import DataError

SIGNATURE = 0xF11A48D5013417F5
HEADER = 6 * 8
MAX_BYTES = 2**31  # real files have a few million
GOLDEN, MASK = 0x9E3779B9, 2**64 - 1


def read_marian_lex(path: Path, *, source_tokens: int, vocabulary: int, shared: bool) -> Shortlist:
    """Read a shortlist; with a ``shared`` vocabulary, a token may be translated to itself, as in Marian."""
    try:
        first, offsets, targets = _parse(_read(path))
        if len(offsets) != source_tokens + 1:
            raise ValueError(f"it is for {len(offsets) - 1} source tokens, but the model has {source_tokens}")
        if len(targets) and int(targets.max()) >= vocabulary:
            raise ValueError(f"it lists the target token {targets.max()}, but the model has {vocabulary}")
    except ValueError as error:
        raise DataError(f"{path} cannot be used as a shortlist: {error}") from None
    lists = [targets[start:end] for start, end in pairwise(offsets)]
    if shared:
        lists = [np.append(one, token) for token, one in enumerate(lists)]
    return shortlist_of(lists, np.arange(min(first, vocabulary)), vocabulary)


def _read(path: Path) -> bytes:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError("it is larger than any shortlist")
    return path.read_bytes()


def _parse(content: bytes) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    if len(content) < HEADER:
        raise ValueError(f"it has {len(content)} bytes, fewer than a header")
    signature, checksum, first, _, offsets, tokens = np.frombuffer(content, "<u8", 6).tolist()
    if signature != SIGNATURE:
        raise ValueError("it is not in Marian's binary format; convert a text file with  marian-conv")
    size = HEADER + 8 * offsets + 4 * tokens
    if len(content) != size:
        raise ValueError(f"it has {len(content):,} bytes instead of {size:,}")
    if checksum_of(content[16:]) != checksum:
        raise ValueError("it is damaged, as its checksum differs; copy it again")
    starts = np.frombuffer(content, "<u8", offsets, HEADER)
    if not offsets or starts[0] != 0 or starts[-1] != tokens or (starts[1:] < starts[:-1]).any():
        raise ValueError("its offsets do not match its lists")
    return first, starts.astype(np.int64), np.frombuffer(content, "<u4", tokens, HEADER + 8 * offsets).astype(np.int64)


def checksum_of(content: bytes) -> int:
    """Return Marian's checksum of the whole 64-bit numbers; remaining bytes do not count."""
    seed = 0
    for number in np.frombuffer(content, "<u8", len(content) // 8).tolist():
        seed ^= (number + GOLDEN + (seed << 6) + (seed >> 2)) & MASK
    return seed
