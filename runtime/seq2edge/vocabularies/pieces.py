"""SentencePiece cuts the text, and a vocabulary of its own numbers the pieces; needs sentencepiece.

So it is in Marian, OPUS-MT and most models for CTranslate2: source and target share one vocabulary, and each is cut by
a SentencePiece model that knows nothing of its numbers. Where one model makes several languages, the text begins with
the tag of one, as in ``>>deu<< Good morning``, if the vocabulary has such tags.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from seq2edge.errors import DataError
from seq2edge.tokens import SpecialTokens
from seq2edge.vocabularies.sentencepiece import BYTE, SPACE, SentencePieces, characters, load_sentencepiece
from seq2edge.vocabularies.token_list import TokenList, read_ids

TAG = re.compile(r">>.*?<<", re.DOTALL)


class Pieces:
    """A text is the pieces that a SentencePiece model cuts it into."""

    def __init__(
        self, ids: dict[str, int], model: SentencePieces, tokens: SpecialTokens, silent: tuple[int, ...] = ()
    ) -> None:
        self.ids = ids  # all of them: no text is cut into marks, and a mark of one side may be a word of the other
        self.known = TokenList(ids, tokens, silent)
        self.has_tags = any(TAG.fullmatch(piece) for piece in ids)
        self.model = model
        self.odd = {self.known.unk} | {number for piece, number in ids.items() if BYTE.fullmatch(piece)}

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[self.ids.get(piece, self.known.unk) for piece in self.spell(text)] for text in texts]

    def decode(self, ids: list[int]) -> str:
        return _joined(self.known.spell(ids)).replace(SPACE, " ").strip()

    def spell(self, text: str) -> list[str]:
        tag, rest = self.split_tag(text)
        return [tag, *self.model.spell(rest)] if tag else self.model.spell(text)

    def split_tag(self, text: str) -> tuple[str, str]:
        """The tag of a language that the text begins with, if any, and the text behind it."""
        found = TAG.match(text) if self.has_tags else None
        return (found[0], text[found.end() :]) if found else ("", text)

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        return sum(characters(piece) for piece, number in zip(self.spell(text), ids, strict=True) if number in self.odd)

    def piece(self, number: int) -> str:
        return self.known.piece(number)

    def get_piece_size(self) -> int:
        return self.known.size


def load_pieces(file: Path, codes: Path | None, tokens: SpecialTokens, silent: tuple[int, ...] = ()) -> Pieces:
    if codes is None:
        raise DataError(f"{file} is a vocabulary of pieces, which needs its SentencePiece model too")
    return Pieces(read_ids(file), load_sentencepiece(codes), tokens, silent)


def _joined(pieces: Iterable[str]) -> str:
    """The pieces one behind the other, bytes as the characters that they make."""
    text = ""
    for are_bytes, group in groupby(pieces, lambda piece: BYTE.fullmatch(piece) is not None):
        run = "".join(group)
        text += bytes.fromhex("".join(BYTE.findall(run))).decode(errors="replace") if are_bytes else run
    return text
