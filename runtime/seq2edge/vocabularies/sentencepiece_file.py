"""Look through a SentencePiece model before its library sees it; needs numpy.

The library follows the tables of a model's normalization without asking whether they lead outside: the trie of what is
replaced, a double array of the library Darts, and the texts that stand in the place of it.
"""

import struct
from pathlib import Path

import numpy as np

from seq2edge.errors import DataError
from seq2edge.protobuf import LENGTH, VARINT, BrokenFileError, Field, Form, Message, check_form

MOST_BYTES = 2**26  # the largest vocabularies have some megabytes
MOST_PIECES = 2**21
MODEL = Form(
    "model", {1: Field(repeated=True), 2: Field(), 3: Field(), 4: Field(), 5: Field()}
)  # pieces, trainer, normalizer, test, denormalizer
NORMALIZER = Form(
    "normalizer", {1: Field(text=True), 2: Field(), **dict.fromkeys((3, 4, 5), Field(kind=VARINT)), 6: Field()}
)
PIECES, NORMALIZERS, TABLES = 1, (3, 5), 2
LEAF, BLOCK = np.uint32(1 << 31), 256


def check_sentencepiece(path: Path) -> None:
    """Refuse a file that the library might not survive."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    try:
        if len(content) > MOST_BYTES:
            raise BrokenFileError(f"it has more than {MOST_BYTES:,} bytes")
        _check(Message(content, 0, len(content)))
    except BrokenFileError as error:
        raise DataError(f"{path} is not a SentencePiece model that can be read: {error}") from None


def _check(model: Message) -> None:
    check_form(model, MODEL, most=MOST_PIECES)
    if PIECES not in model.fields:
        raise BrokenFileError("it has no pieces")
    for number in NORMALIZERS:
        for normalizer in model.messages(number):
            check_form(normalizer, NORMALIZER, most=LENGTH + len(NORMALIZER.fields))
            for tables in normalizer.contents(TABLES):
                if tables:
                    _check_tables(tables)


def _check_tables(tables: bytes) -> None:
    """The length of the trie, the trie, and texts that end in zeros."""
    if len(tables) < 4:
        raise BrokenFileError("its normalization is cut off")
    (length,) = struct.unpack_from("<I", tables)
    trie, texts = tables[4 : 4 + length], tables[4 + length :]
    if len(trie) < length or not length or length % (4 * BLOCK) or not texts.endswith(b"\0"):
        raise BrokenFileError("its normalization is cut off, or not of whole blocks")
    units = np.frombuffer(trie, "<u4")
    places = np.arange(len(units), dtype=np.uint64)
    steps = (units >> 10).astype(np.uint64) << ((units & (1 << 9)) >> 6).astype(np.uint64)
    inner = (units & LEAF) == 0
    inner[0] = True  # where every search begins
    if ((places ^ steps) | (BLOCK - 1))[inner].max(initial=0) >= len(units):
        raise BrokenFileError("its normalization leads outside of its own table")
    if (units & ~LEAF)[~inner].max(initial=0) >= len(texts):
        raise BrokenFileError("its normalization leads behind its own texts")
