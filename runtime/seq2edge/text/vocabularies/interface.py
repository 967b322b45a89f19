"""Define the interface of a vocabulary."""

from collections.abc import Sequence
from typing import Protocol


class Vocabulary(Protocol):
    """Convert texts to ids, without special tokens around them, and back."""

    unknown_ids: set[int]  # ids that stand for characters without a token of their own

    def encode(self, texts: list[str]) -> list[list[int]]: ...

    def decode(self, ids: list[int]) -> str: ...

    def tokenize(self, text: str) -> list[str]:
        """Return the token of each id of a text."""
        ...

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        """Count the characters of a text without a token; ``ids`` are the encoded text."""
        ...

    def piece(self, number: int) -> str:
        """Return the token of an id."""
        ...

    def get_piece_size(self) -> int:
        """Return the size of the vocabulary: one more than the highest id."""
        ...
