"""Text to ids and back with SentencePiece; needs sentencepiece."""

from collections.abc import Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from seq2edge.errors import DataError


class Tokenizer:
    """A source and a target vocabulary, which may be the same."""

    def __init__(self, source: SentencePieceProcessor, target: SentencePieceProcessor, *, eos: int) -> None:
        self.source = source
        self.target = target
        self.eos = eos

    @classmethod
    def load(cls, source: Path, target: Path, *, eos: int) -> "Tokenizer":
        return cls(_load(source), _load(target), eos=eos)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Source ids of each text, with the end mark."""
        return _encode(self.source, texts, self.eos)

    def encode_target(self, texts: Sequence[str]) -> list[list[int]]:
        """Target ids of each text, with the end mark."""
        return _encode(self.target, texts, self.eos)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of target ids; control ids, and ids without a piece, say nothing."""
        size = self.target.get_piece_size()
        return [self.target.decode([i for i in row if 0 <= i < size]) for row in ids]


def _encode(model: SentencePieceProcessor, texts: Sequence[str], eos: int) -> list[list[int]]:
    for text in texts:
        _check(text)
    return [[*ids, eos] for ids in model.encode(list(texts))]


def _check(text: str) -> None:
    """Refuse half a character, which a str can hold and which no text has; SentencePiece would fail without a word."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"the text {text[:60]!a} is not Unicode: it has the lone surrogate U+{ord(text[error.start]):04X} at "
            f"character {error.start + 1}, which mostly comes from bytes that are not UTF-8"
        ) from None


def _load(path: Path) -> SentencePieceProcessor:
    try:
        return SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} is not a SentencePiece model that can be read ({error})") from None
