"""A SentencePiece model as a vocabulary; needs sentencepiece."""

import re
from collections.abc import Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from seq2edge.errors import DataError
from seq2edge.vocabularies.sentencepiece_file import check_sentencepiece

SPACE = "▁"
BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # a byte of a character that has no piece


class SentencePieces:
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


def load_sentencepiece(path: Path) -> SentencePieces:
    check_sentencepiece(path)
    try:
        return SentencePieces(SentencePieceProcessor(model_file=str(path)))
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} is not a SentencePiece model that can be read ({error})") from None
