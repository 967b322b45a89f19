"""Vocabularies that use SentencePiece: a model alone, with a separate list of ids, or with the extra tokens of T5."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from seq2edge.bundle.packaged import DIGESTS, TOKENIZER, digest_of
from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import DataError
from seq2edge.text.vocabularies.plain import TokenList, read_ids

SPACE = "▁"
BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # a byte of a character that has no piece
LANGUAGE_TAG = re.compile(r">>.*?<<", re.DOTALL)
MAX_BYTES = 2**26  # the largest models have some megabytes
NOT_UTF8 = UnicodeDecodeError, SystemError  # sentencepiece 0.2.0 wraps the first in the second


class SentencePieceVocabulary:
    """A SentencePiece model: its pieces are the tokens, with the ids of the model."""

    def __init__(self, model: SentencePieceProcessor) -> None:
        self.model = model
        named = (model.piece_to_id(f"<0x{byte:02X}>") for byte in range(256))  # as SentencePiece wants its byte pieces
        # Bytes count as unknown: they mean little to a model.
        self.unknown_ids = {model.unk_id()} | {number for number in named if model.is_byte(number)}

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [self.model.encode(text) for text in texts]  # for a list, it would start threads in every call

    def decode(self, ids: list[int]) -> str:
        with _utf8("decode these tokens"):
            return str(self.model.decode(ids))

    def tokenize(self, text: str) -> list[str]:
        with _utf8("tokenize this text"):
            pieces: list[str] = self.model.encode(text, out_type=str)
            return pieces

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        pairs = zip(self.tokenize(text), ids, strict=True)
        return sum(_count_characters(piece) for piece, number in pairs if number in self.unknown_ids)

    def piece(self, number: int) -> str:
        try:
            return str(self.model.id_to_piece(number)) if 0 <= number < self.get_piece_size() else f"<{number}>"
        except NOT_UTF8:
            raise DataError(f"piece {number} of the SentencePiece model is not UTF-8") from None

    def get_piece_size(self) -> int:
        return int(self.model.get_piece_size())


@contextmanager
def _utf8(what: str) -> Iterator[None]:
    """Name the model if its pieces or tables are not UTF-8."""
    try:
        yield
    except NOT_UTF8:
        raise DataError(f"the SentencePiece model cannot {what}: its pieces or tables are not UTF-8") from None


def load_sentencepiece(path: Path) -> SentencePieceVocabulary:
    content = _read(path)
    if digest_of(content) != DIGESTS[TOKENIZER]:
        from seq2edge.text.vocabularies.sentencepiece_vetting import vet_sentencepiece  # only needed here

        vet_sentencepiece(content, path)
    try:
        return SentencePieceVocabulary(SentencePieceProcessor(model_proto=content))
    except (OSError, RuntimeError, UnicodeDecodeError) as error:  # its messages may quote bytes that are not UTF-8
        raise DataError(f"{path} is not a valid SentencePiece model ({error})") from None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise DataError(f"{path} is not a valid SentencePiece model: it has more than {MAX_BYTES:,} bytes")
    return content


class PieceListVocabulary:
    """A list of pieces with their ids, and a SentencePiece model that only splits the text.

    Marian, OPUS-MT and most CTranslate2 models have it: source and target share the list, and each has its own
    SentencePiece model. If the list has language tags, a text may start with one, as in ``>>deu<< Good morning``.
    """

    def __init__(
        self, ids: dict[str, int], model: SentencePieceVocabulary, tokens: SpecialTokens, silent: tuple[int, ...] = ()
    ) -> None:
        self.ids = ids  # with special tokens: no text is split into one, and one of the target may be a source piece
        self.token_list = TokenList(ids, tokens, silent)
        self.has_tags = any(LANGUAGE_TAG.fullmatch(piece) for piece in ids)
        self.model = model
        self.unknown_ids = {self.token_list.unk} | {number for piece, number in ids.items() if BYTE.fullmatch(piece)}

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[self.ids.get(piece, self.token_list.unk) for piece in self.tokenize(text)] for text in texts]

    def decode(self, ids: list[int]) -> str:
        return _join(self.token_list.tokens_of(ids)).replace(SPACE, " ").strip()

    def tokenize(self, text: str) -> list[str]:
        tag, rest = self.split_tag(text)
        return [tag, *self.model.tokenize(rest)] if tag else self.model.tokenize(text)

    def split_tag(self, text: str) -> tuple[str, str]:
        """Split off the language tag at the start of a text, if there is one."""
        match = LANGUAGE_TAG.match(text) if self.has_tags else None
        return (match[0], text[match.end() :]) if match else ("", text)

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        pairs = zip(self.tokenize(text), ids, strict=True)
        return sum(_count_characters(piece) for piece, number in pairs if number in self.unknown_ids)

    def piece(self, number: int) -> str:
        return self.token_list.piece(number)

    def get_piece_size(self) -> int:
        return self.token_list.size


def load_pieces(
    file: Path, codes: Path | None, tokens: SpecialTokens, silent: tuple[int, ...] = ()
) -> PieceListVocabulary:
    if codes is None:
        raise DataError(f"{file} is a list of pieces, which needs a SentencePiece model")
    return PieceListVocabulary(read_ids(file), load_sentencepiece(codes), tokens, silent)


class T5Vocabulary:
    """The vocabulary of T5: a SentencePiece model, and special tokens that may occur in a text.

    The sentinels ``<extra_id_0>``, ``<extra_id_1>`` and so on follow the pieces, the first with the highest id. They,
    ``</s>``, ``<pad>`` and ``<unk>`` are tokens anywhere in a text, as in Hugging Face, and are left out of outputs.
    """

    def __init__(self, pieces: SentencePieceVocabulary, tokens: SpecialTokens, sentinels: int) -> None:
        self.pieces = pieces
        self.unknown_ids = pieces.unknown_ids
        self.size = pieces.get_piece_size() + sentinels
        self.special = {pieces.piece(number): number for number in (tokens.pad, tokens.eos, tokens.unk)}
        self.special |= {f"<extra_id_{number}>": self.size - 1 - number for number in range(sentinels)}
        self.names = {number: token for token, number in self.special.items()}
        longest_first = sorted(self.special, key=len, reverse=True)
        self.any_special = re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[number for part in self.any_special.split(text) for number in self._ids(part)] for text in texts]

    def decode(self, ids: list[int]) -> str:
        first, *others = [self.pieces.piece(number) for number in ids if number not in self.names] or [""]
        return first.replace(SPACE, "") + "".join(others).replace(SPACE, " ")

    def tokenize(self, text: str) -> list[str]:
        return [token for part in self.any_special.split(text) for token in self._tokens(part)]

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        pairs = zip(self.tokenize(text), ids, strict=True)
        unknown = [piece for piece, number in pairs if number in self.unknown_ids and piece not in self.special]
        return sum(map(_count_characters, unknown))

    def piece(self, number: int) -> str:
        return self.names.get(number) or self.pieces.piece(number)

    def get_piece_size(self) -> int:
        return self.size

    def _ids(self, part: str) -> list[int]:
        return [self.special[part]] if part in self.special else self.pieces.encode([part])[0]

    def _tokens(self, part: str) -> list[str]:
        return [part] if part in self.special else self.pieces.tokenize(part)


def load_t5(file: Path, tokens: SpecialTokens, sentinels: int) -> T5Vocabulary:
    return T5Vocabulary(load_sentencepiece(file), tokens, sentinels)


def _count_characters(piece: str) -> int:
    """Return how many characters a piece stands for; a character in bytes counts with its first byte."""
    byte = BYTE.fullmatch(piece)
    if byte is None:
        return len(piece.removeprefix(SPACE))
    return int((int(byte[1], 16) & 0xC0) != 0x80)


def _join(pieces: Iterable[str]) -> str:
    """Concatenate pieces, with bytes decoded to characters."""
    text = ""
    for are_bytes, group in groupby(pieces, lambda piece: BYTE.fullmatch(piece) is not None):
        run = "".join(group)
        text += bytes.fromhex("".join(BYTE.findall(run))).decode(errors="replace") if are_bytes else run
    return text
