"""What every kind of vocabulary can do."""

from collections.abc import Sequence
from typing import Protocol


class Vocabulary(Protocol):
    """Texts to ids, without any marks around them, and ids to text."""

    odd: set[int]  # ids that stand for characters without a token

    def encode(self, texts: list[str]) -> list[list[int]]: ...

    def decode(self, ids: list[int]) -> str: ...

    def spell(self, text: str) -> list[str]:
        """What stands in the text for each of its ids."""
        ...

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        """How many characters of a text have no token; ``ids`` are those of the text."""
        ...

    def piece(self, number: int) -> str:
        """How an id is written."""
        ...

    def get_piece_size(self) -> int:
        """One more than the highest id."""
        ...
