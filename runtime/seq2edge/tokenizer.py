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
        return [ids + [self.eos] for ids in self.source.encode(list(texts))]

    def encode_target(self, texts: Sequence[str]) -> list[list[int]]:
        """Target ids of each text, with the end mark."""
        return [ids + [self.eos] for ids in self.target.encode(list(texts))]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of target ids; control ids say nothing."""
        size = self.target.get_piece_size()
        return [self.target.decode([i for i in row if i < size]) for row in ids]


def _load(path: Path) -> SentencePieceProcessor:
    try:
        return SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} is not a SentencePiece model that can be read ({error})") from None
