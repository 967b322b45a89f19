"""What every kind of vocabulary can do; SentencePiece's own class can already; needs nothing."""

from typing import Protocol


class Vocabulary(Protocol):
    """Texts to ids, without any marks around them, and ids to text."""

    def encode(self, texts: list[str]) -> list[list[int]]: ...

    def decode(self, ids: list[int]) -> str: ...

    def get_piece_size(self) -> int:
        """One more than the highest id."""
        ...
