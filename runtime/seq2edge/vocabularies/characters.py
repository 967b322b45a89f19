"""Every character is a token; needs nothing."""

from collections.abc import Sequence
from pathlib import Path

from seq2edge.tokens import SpecialTokens
from seq2edge.vocabularies.token_list import TokenList, read_token_list


class Characters:
    """A text is its Unicode code points, spaces among them."""

    def __init__(self, known: TokenList) -> None:
        self.known = known
        self.odd = {known.unk}

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [self.known.look_up(text) for text in texts]

    def decode(self, ids: list[int]) -> str:
        return "".join(self.known.spell(ids))

    def spell(self, text: str) -> list[str]:
        return list(text)

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        return self.known.unknown_characters(self.spell(text), ids)

    def piece(self, number: int) -> str:
        return self.known.piece(number)

    def get_piece_size(self) -> int:
        return self.known.size


def load_characters(file: Path, tokens: SpecialTokens) -> Characters:
    return Characters(read_token_list(file, tokens))
