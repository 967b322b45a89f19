"""T5's vocabulary: SentencePiece, and marks that may stand in a text; needs sentencepiece.

Behind the pieces come the sentinels ``<extra_id_0>``, ``<extra_id_1>`` and so on, the first with the highest id. They,
``</s>``, ``<pad>`` and ``<unk>`` are tokens of their own wherever they stand in a text, as Hugging Face reads it, and
say nothing in an output.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from seq2edge.tokens import SpecialTokens
from seq2edge.vocabularies.sentencepiece import SPACE, SentencePieces, characters, load_sentencepiece


class T5Pieces:
    """A text is what SentencePiece makes of the stretches between its marks."""

    def __init__(self, pieces: SentencePieces, tokens: SpecialTokens, sentinels: int) -> None:
        self.pieces = pieces
        self.odd = pieces.odd
        self.size = pieces.get_piece_size() + sentinels
        self.marks = {pieces.piece(number): number for number in (tokens.pad, tokens.eos, tokens.unk)}
        self.marks |= {f"<extra_id_{number}>": self.size - 1 - number for number in range(sentinels)}
        self.names = {number: mark for mark, number in self.marks.items()}
        longest_first = sorted(self.marks, key=len, reverse=True)
        self.any_mark = re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[number for stretch in self.any_mark.split(text) for number in self._ids(stretch)] for text in texts]

    def decode(self, ids: list[int]) -> str:
        first, *others = [self.pieces.piece(number) for number in ids if number not in self.names] or [""]
        return first.replace(SPACE, "") + "".join(others).replace(SPACE, " ")

    def spell(self, text: str) -> list[str]:
        return [written for stretch in self.any_mark.split(text) for written in self._written(stretch)]

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        spelt = zip(self.spell(text), ids, strict=True)
        return sum(characters(piece) for piece, number in spelt if number in self.odd and piece not in self.marks)

    def piece(self, number: int) -> str:
        return self.names.get(number) or self.pieces.piece(number)

    def get_piece_size(self) -> int:
        return self.size

    def _ids(self, stretch: str) -> list[int]:
        return [self.marks[stretch]] if stretch in self.marks else self.pieces.encode([stretch])[0]

    def _written(self, stretch: str) -> list[str]:
        return [stretch] if stretch in self.marks else self.pieces.spell(stretch)


def load_t5(file: Path, tokens: SpecialTokens, sentinels: int) -> T5Pieces:
    return T5Pieces(load_sentencepiece(file), tokens, sentinels)
