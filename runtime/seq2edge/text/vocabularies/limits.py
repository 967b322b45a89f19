"""Limit what a vocabulary can make of a text, because its libraries allocate whatever a file asks for.

A file may replace characters by others: with the normalization tables of SentencePiece (a trie of what to replace, a
double array of the library Darts, and the replacement texts), or with the components of a ``tokenizer.json``. The
longest output per character of input, over all steps, is at most ``MAX_EXPANSION``. The tables of well-known models
have 18, for one Arabic ligature.
"""

import struct
from collections.abc import Iterable

import numpy as np

from seq2edge.bundle.protobuf import BrokenFileError

MAX_EXPANSION = 100
MAX_PIECE_LENGTH = 4096  # characters of a token; the longest of well-known vocabularies are runs of some hundred spaces
LEAF, BLOCK = np.uint32(1 << 31), 256  # of the trie


def check_piece_lengths(lengths: Iterable[int]) -> None:
    """Refuse tokens so long that a few of them would fill the memory."""
    longest = max(lengths, default=0)
    if longest > MAX_PIECE_LENGTH:
        raise BrokenFileError(f"it has a token of {longest:,} characters, but at most {MAX_PIECE_LENGTH:,} are allowed")


def check_expansion(factor: int, what: str) -> None:
    """Refuse a vocabulary that turns one character into too many."""
    if factor > MAX_EXPANSION:
        raise BrokenFileError(
            f"its {what} can turn one character into {min(factor, 10**9):,}, but at most {MAX_EXPANSION} are allowed"
        )


def check_tables(tables: bytes) -> int:
    """Check normalization tables, and return the number of characters of the longest replacement.

    They consist of the length of the trie, the trie, and texts that each end with a zero.
    """
    if len(tables) < 4:
        raise BrokenFileError("its normalization tables are truncated")
    (length,) = struct.unpack_from("<I", tables)
    trie, texts = tables[4 : 4 + length], tables[4 + length :]
    if len(trie) < length or not length or length % (4 * BLOCK) or not texts.endswith(b"\0"):
        raise BrokenFileError("its normalization tables are truncated, or do not consist of whole blocks")
    units = np.frombuffer(trie, "<u4")
    positions = np.arange(len(units), dtype=np.uint64)
    offsets = (units >> 10).astype(np.uint64) << ((units & (1 << 9)) >> 6).astype(np.uint64)
    inner = (units & LEAF) == 0
    inner[0] = True  # the root
    if ((positions ^ offsets) | (BLOCK - 1))[inner].max(initial=0) >= len(units):
        raise BrokenFileError("its normalization trie points outside itself")
    if (units & ~LEAF)[~inner].max(initial=0) >= len(texts):
        raise BrokenFileError("its normalization trie points past the end of its texts")
    return max(map(len, texts.decode("utf-8", "replace").split("\0")))
