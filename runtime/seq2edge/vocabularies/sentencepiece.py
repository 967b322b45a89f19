"""A SentencePiece model as a vocabulary; needs sentencepiece."""

from pathlib import Path

from sentencepiece import SentencePieceProcessor

from seq2edge.errors import DataError


class SentencePieces:
    """A text is what SentencePiece makes of it."""

    def __init__(self, model: SentencePieceProcessor) -> None:
        self.model = model

    def encode(self, texts: list[str]) -> list[list[int]]:
        ids: list[list[int]] = self.model.encode(texts)
        return ids

    def decode(self, ids: list[int]) -> str:
        text: str = self.model.decode(ids)
        return text

    def spell(self, text: str) -> list[str]:
        pieces: list[str] = self.model.encode(text, out_type=str)
        return pieces

    def piece(self, number: int) -> str:
        return str(self.model.id_to_piece(number)) if number < self.get_piece_size() else f"<{number}>"

    def get_piece_size(self) -> int:
        return int(self.model.get_piece_size())


def load_sentencepiece(path: Path) -> SentencePieces:
    try:
        return SentencePieces(SentencePieceProcessor(model_file=str(path)))
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} is not a SentencePiece model that can be read ({error})") from None
