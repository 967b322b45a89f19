"""A SentencePiece model as a vocabulary.

Look through a SentencePiece model before its library sees it.

The library follows the tables of a model's normalization without asking whether they lead outside: the trie of what is
replaced, a double array of the library Darts, and the texts that stand in the place of it.

SentencePiece cuts the text, and a vocabulary of its own numbers the pieces.

So it is in Marian, OPUS-MT and most models for CTranslate2: source and target share one vocabulary, and each is cut by
a SentencePiece model that knows nothing of its numbers. Where one model makes several languages, the text begins with
the tag of one, as in ``>>deu<< Good morning``, if the vocabulary has such tags.

T5's vocabulary: SentencePiece, and marks that may stand in a text.

Behind the pieces come the sentinels ``<extra_id_0>``, ``<extra_id_1>`` and so on, the first with the highest id. They,
``</s>``, ``<pad>`` and ``<unk>`` are tokens of their own wherever they stand in a text, as Hugging Face reads it, and
say nothing in an output.
"""

import re
import struct
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from sentencepiece import SentencePieceProcessor

from seq2edge.bundle.protobuf import LENGTH, VARINT, BrokenFileError, Field, Form, Message, check_form
from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import DataError
from seq2edge.text.vocabularies.plain import TokenList, read_ids

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


SPACE = "▁"
BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # a byte of a character that has no piece


class SentencePieceVocabulary:
    """A text is what SentencePiece makes of it."""

    def __init__(self, model: SentencePieceProcessor) -> None:
        self.model = model
        pieces = range(model.get_piece_size())  # bytes say little to a model
        self.odd = {number for number in pieces if model.is_unknown(number) or model.is_byte(number)}

    def encode(self, texts: list[str]) -> list[list[int]]:
        ids: list[list[int]] = self.model.encode(texts)
        return ids

    def decode(self, ids: list[int]) -> str:
        text: str = self.model.decode(ids)
        return text

    def spell(self, text: str) -> list[str]:
        pieces: list[str] = self.model.encode(text, out_type=str)
        return pieces

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        return sum(characters(piece) for piece, number in zip(self.spell(text), ids, strict=True) if number in self.odd)

    def piece(self, number: int) -> str:
        try:
            return str(self.model.id_to_piece(number)) if 0 <= number < self.get_piece_size() else f"<{number}>"
        except UnicodeDecodeError:
            raise DataError(f"piece {number} of the SentencePiece model is not UTF-8") from None

    def get_piece_size(self) -> int:
        return int(self.model.get_piece_size())


def characters(piece: str) -> int:
    """How many characters a piece stands for; those that are spelt in bytes count with their first byte."""
    byte = BYTE.fullmatch(piece)
    if byte is None:
        return len(piece.removeprefix(SPACE))
    return int((int(byte[1], 16) & 0xC0) != 0x80)


def load_sentencepiece(path: Path) -> SentencePieceVocabulary:
    check_sentencepiece(path)
    try:
        return SentencePieceVocabulary(SentencePieceProcessor(model_file=str(path)))
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} is not a SentencePiece model that can be read ({error})") from None


TAG = re.compile(r">>.*?<<", re.DOTALL)


class PieceListVocabulary:
    """A text is the pieces that a SentencePiece model cuts it into."""

    def __init__(
        self, ids: dict[str, int], model: SentencePieceVocabulary, tokens: SpecialTokens, silent: tuple[int, ...] = ()
    ) -> None:
        self.ids = ids  # all of them: no text is cut into marks, and a mark of one side may be a word of the other
        self.known = TokenList(ids, tokens, silent)
        self.has_tags = any(TAG.fullmatch(piece) for piece in ids)
        self.model = model
        self.odd = {self.known.unk} | {number for piece, number in ids.items() if BYTE.fullmatch(piece)}

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[self.ids.get(piece, self.known.unk) for piece in self.spell(text)] for text in texts]

    def decode(self, ids: list[int]) -> str:
        return _joined(self.known.spell(ids)).replace(SPACE, " ").strip()

    def spell(self, text: str) -> list[str]:
        tag, rest = self.split_tag(text)
        return [tag, *self.model.spell(rest)] if tag else self.model.spell(text)

    def split_tag(self, text: str) -> tuple[str, str]:
        """The tag of a language that the text begins with, if any, and the text behind it."""
        found = TAG.match(text) if self.has_tags else None
        return (found[0], text[found.end() :]) if found else ("", text)

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        return sum(characters(piece) for piece, number in zip(self.spell(text), ids, strict=True) if number in self.odd)

    def piece(self, number: int) -> str:
        return self.known.piece(number)

    def get_piece_size(self) -> int:
        return self.known.size


def load_pieces(
    file: Path, codes: Path | None, tokens: SpecialTokens, silent: tuple[int, ...] = ()
) -> PieceListVocabulary:
    if codes is None:
        raise DataError(f"{file} is a vocabulary of pieces, which needs its SentencePiece model too")
    return PieceListVocabulary(read_ids(file), load_sentencepiece(codes), tokens, silent)


def _joined(pieces: Iterable[str]) -> str:
    """The pieces one behind the other, bytes as the characters that they make."""
    text = ""
    for are_bytes, group in groupby(pieces, lambda piece: BYTE.fullmatch(piece) is not None):
        run = "".join(group)
        text += bytes.fromhex("".join(BYTE.findall(run))).decode(errors="replace") if are_bytes else run
    return text


class T5Vocabulary:
    """A text is what SentencePiece makes of the stretches between its marks."""

    def __init__(self, pieces: SentencePieceVocabulary, tokens: SpecialTokens, sentinels: int) -> None:
        self.pieces = pieces
        self.odd = pieces.odd
        self.size = pieces.get_piece_size() + sentinels
        self.marks = {pieces.piece(number): number for number in (tokens.pad, tokens.eos, tokens.unk)}
        self.marks |= {f"<extra_id_{number}>": self.size - 1 - number for number in range(sentinels)}
        self.names = {number: mark for mark, number in self.marks.items()}
        longest_first = sorted(self.marks, key=len, reverse=True)
        self.any_mark = re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[number for stretch in self.any_mark.split(text) for number in self._ids(stretch)] for text in texts]

    def decode(self, ids: list[int]) -> str:
        first, *others = [self.pieces.piece(number) for number in ids if number not in self.names] or [""]
        return first.replace(SPACE, "") + "".join(others).replace(SPACE, " ")

    def spell(self, text: str) -> list[str]:
        return [written for stretch in self.any_mark.split(text) for written in self._written(stretch)]

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        spelt = zip(self.spell(text), ids, strict=True)
        return sum(characters(piece) for piece, number in spelt if number in self.odd and piece not in self.marks)

    def piece(self, number: int) -> str:
        return self.names.get(number) or self.pieces.piece(number)

    def get_piece_size(self) -> int:
        return self.size

    def _ids(self, stretch: str) -> list[int]:
        return [self.marks[stretch]] if stretch in self.marks else self.pieces.encode([stretch])[0]

    def _written(self, stretch: str) -> list[str]:
        return [stretch] if stretch in self.marks else self.pieces.spell(stretch)


def load_t5(file: Path, tokens: SpecialTokens, sentinels: int) -> T5Vocabulary:
    return T5Vocabulary(load_sentencepiece(file), tokens, sentinels)
