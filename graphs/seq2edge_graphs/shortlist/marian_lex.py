"""Read the lexical shortlists of Marian and Bergamot, ``lex.s2t.bin``.

Six numbers of 64 bits come first: a signature, a checksum of all that follows it, how many of the first words are
always allowed, how many the best of each token are, how many offsets there are, how many words. Then come the offsets,
64 bits each, of which each source token has one and the end one more; then the words, 32 bits each.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2edge.engine.shortlist import Shortlist, shortlist_of
from seq2edge.errors import DataError

SIGNATURE = 0xF11A48D5013417F5
HEADER = 6 * 8
LARGEST = 2**31  # bytes of a file; those there are have some millions
GOLDEN, MASK = 0x9E3779B9, 2**64 - 1


def read_marian_lex(path: Path, *, source_tokens: int, vocabulary: int, shared: bool) -> Shortlist:
    """A shortlist for a model; where it has one vocabulary, a source token may become itself, as in Marian."""
    try:
        first, offsets, words = _parsed(_content(path))
        if len(offsets) != source_tokens + 1:
            raise ValueError(f"it is for {len(offsets) - 1} source tokens, but the model has {source_tokens}")
        if len(words) and int(words.max()) >= vocabulary:
            raise ValueError(f"it lists the word {words.max()}, but the model has {vocabulary}")
    except ValueError as error:
        raise DataError(f"{path} cannot be used as a shortlist: {error}") from None
    lists = [words[start:end] for start, end in pairwise(offsets)]
    if shared:
        lists = [np.append(one, token) for token, one in enumerate(lists)]
    return shortlist_of(lists, np.arange(min(first, vocabulary)), vocabulary)


def _content(path: Path) -> bytes:
    if path.stat().st_size > LARGEST:
        raise ValueError("it is larger than any shortlist")
    return path.read_bytes()


def _parsed(content: bytes) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    if len(content) < HEADER:
        raise ValueError(f"it has {len(content)} bytes, fewer than its head")
    signature, checksum, first, _, offsets, words = np.frombuffer(content, "<u8", 6).tolist()
    if signature != SIGNATURE:
        raise ValueError("it is not Marian's binary format; a text file can be made one with  marian-conv")
    wanted = HEADER + 8 * offsets + 4 * words
    if len(content) != wanted:
        raise ValueError(f"it has {len(content):,} bytes instead of {wanted:,}")
    if checksum_of(content[16:]) != checksum:
        raise ValueError("it is damaged, as its checksum differs; copy it again")
    starts = np.frombuffer(content, "<u8", offsets, HEADER)
    if not offsets or starts[0] != 0 or starts[-1] != words or (starts[1:] < starts[:-1]).any():
        raise ValueError("its offsets do not fit its words")
    return first, starts.astype(np.int64), np.frombuffer(content, "<u4", words, HEADER + 8 * offsets).astype(np.int64)


def checksum_of(content: bytes) -> int:
    """Marian's own: whole numbers of 64 bits one after another; what is left at the end does not count."""
    seed = 0
    for number in np.frombuffer(content, "<u8", len(content) // 8).tolist():
        seed ^= (number + GOLDEN + (seed << 6) + (seed >> 2)) & MASK
    return seed
