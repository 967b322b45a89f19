"""Every word is a token; needs nothing."""

from collections.abc import Sequence
from pathlib import Path

from seq2edge.tokenization import Split
from seq2edge.tokens import SpecialTokens
from seq2edge.vocabularies.splitting import join_words, split_words
from seq2edge.vocabularies.token_list import TokenList, read_token_list


class Words:
    """A text is its words, by one of the rules for splitting."""

    def __init__(self, known: TokenList, split: Split) -> None:
        self.known = known
        self.odd = {known.unk}
        self.split = split

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [self.known.look_up(split_words(text, self.split)) for text in texts]

    def decode(self, ids: list[int]) -> str:
        return join_words(self.known.spell(ids), self.split)

    def spell(self, text: str) -> list[str]:
        return split_words(text, self.split)

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        return self.known.unknown_characters(self.spell(text), ids)

    def piece(self, number: int) -> str:
        return self.known.piece(number)

    def get_piece_size(self) -> int:
        return self.known.size


def load_words(file: Path, tokens: SpecialTokens, split: Split) -> Words:
    return Words(read_token_list(file, tokens), split)
