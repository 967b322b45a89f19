"""Byte-pair encoding with the codes of subword-nmt or fastBPE; needs tokenizers.

The codes say which neighbours become one piece, in what order; a piece that its word goes on after ends in ``@@`` in
the vocabulary file.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers.models import BPE

from seq2edge.errors import DataError
from seq2edge.tokenization import Split
from seq2edge.tokens import SpecialTokens
from seq2edge.vocabularies.splitting import join_words, split_words
from seq2edge.vocabularies.token_list import TokenList, read_token_list

GOES_ON, WORD_END, UNKNOWN = "@@", "</w>", "\0"
Merge = tuple[str, str]


class BytePairs:
    """A text is the pieces of its words."""

    def __init__(self, known: TokenList, merges: list[Merge], split: Split) -> None:
        self.known = known
        self.odd = {known.unk}
        self.split = split
        self.model = _model(merges)

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [self.known.look_up(self._pieces(text)) for text in texts]

    def decode(self, ids: list[int]) -> str:
        words = " ".join(self.known.spell(ids)).replace(f"{GOES_ON} ", "").removesuffix(GOES_ON)
        return join_words(words.split(" "), self.split)

    def spell(self, text: str) -> list[str]:
        return list(self._pieces(text))

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        return self.known.unknown_characters((piece.removesuffix(GOES_ON) for piece in self._pieces(text)), ids)

    def piece(self, number: int) -> str:
        return self.known.piece(number)

    def get_piece_size(self) -> int:
        return self.known.size

    def _pieces(self, text: str) -> Iterator[str]:
        for word in split_words(text, self.split):
            content = word.encode()
            for piece in self.model.tokenize(word):
                start, end = piece.offsets  # in bytes
                yield content[start:end].decode() + (GOES_ON if end < len(content) else "")


def load_bpe(file: Path, codes: Path | None, tokens: SpecialTokens, split: Split) -> BytePairs:
    if codes is None:
        raise DataError(f"{file} is a vocabulary for byte-pair encoding, which needs its codes too")
    return BytePairs(read_token_list(file, tokens), _read_codes(codes), split)


def _model(merges: list[Merge]) -> BPE:
    pieces = [UNKNOWN, *(piece for first, second in merges for piece in (first, second, first + second))]
    numbers = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    return BPE(vocab=numbers, merges=merges, end_of_word_suffix=WORD_END, unk_token=UNKNOWN)


def _read_codes(path: Path) -> list[Merge]:
    try:
        first, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as BPE codes ({error})") from None
    if not first.startswith("#version"):
        lines = [first, *lines]
    merges = [tuple(line.split(" ")[:2]) for line in lines if line.strip()]
    if any(len(merge) < 2 for merge in merges) or (WORD_END in {piece for merge in merges for piece in merge}):
        raise DataError(f"{path} does not hold BPE codes of subword-nmt 0.2 or newer, or of fastBPE")
    return [(first, second) for first, second in merges]
