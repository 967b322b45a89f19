"""A SentencePiece model as a vocabulary; needs sentencepiece."""

from pathlib import Path

from sentencepiece import SentencePieceProcessor

from seq2edge.errors import DataError


def load_sentencepiece(path: Path) -> SentencePieceProcessor:
    try:
        return SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} is not a SentencePiece model that can be read ({error})") from None
