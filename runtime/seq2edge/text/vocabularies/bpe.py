"""Byte-pair encoding with the codes of subword-nmt or fastBPE.

The codes say which neighbours become one piece, in what order; a piece that its word goes on after ends in ``@@`` in
the vocabulary file.
"""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path

from seq2edge.config.tokenizer import SpecialTokens, Split
from seq2edge.errors import DataError
from seq2edge.text.vocabularies.plain import TokenList, join_words, read_token_list, split_words

GOES_ON, WORD_END = "@@", "</w>"
REMEMBERED = 50_000  # words whose pieces are kept: most of a text is words that came before
Merge = tuple[str, str]
NO_PAIR: Merge = ("", "")


class BpeVocabulary:
    """A text is the pieces of its words."""

    def __init__(self, known: TokenList, merges: list[Merge], split: Split) -> None:
        self.known = known
        self.odd = {known.unk}
        self.split = split
        self.ranks = {merge: rank for rank, merge in reversed(list(enumerate(merges)))}  # of two alike, the first
        self.cut_words: dict[str, list[str]] = {}

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
            for piece in self._cut(word):
                yield from piece.split() if self.split == "blanks" else (piece,)  # white space within says nothing

    def _cut(self, word: str) -> list[str]:
        if word not in self.cut_words:
            if len(self.cut_words) >= REMEMBERED:
                self.cut_words = {}
            *inner, last = merged([*word[:-1], word[-1] + WORD_END], self.ranks)
            self.cut_words[word] = [*(piece + GOES_ON for piece in inner), last.removesuffix(WORD_END)]
        return self.cut_words[word]


def merged(pieces: list[str], ranks: dict[Merge, int]) -> list[str]:
    """Make neighbours one, the earliest merge first and everywhere at once, until there is none left.

    What has become part of the piece before it is empty. Neighbours wait in a heap, so that a text without spaces does
    not take time by the square of its length.
    """
    pieces = list(pieces)
    after, before = list(range(1, len(pieces) + 1)), list(range(-1, len(pieces) - 1))  # the places of the neighbours
    waiting = [(ranks[pair], place) for place, pair in enumerate(pairwise(pieces)) if pair in ranks]
    heapify(waiting)
    while waiting:
        rank = waiting[0][0]
        grown = []
        while waiting and waiting[0][0] == rank:
            _, place = heappop(waiting)
            second = after[place]
            if second == len(pieces) or ranks.get((pieces[place], pieces[second])) != rank:
                continue  # one of the two has become part of something else
            pieces[place], pieces[second] = pieces[place] + pieces[second], ""
            after[place] = after[second]
            if after[place] < len(pieces):
                before[after[place]] = place
            grown.append(place)
        for first in {near for place in grown for near in (before[place], place)}:
            pair = (pieces[first], pieces[after[first]]) if first >= 0 and after[first] < len(pieces) else NO_PAIR
            if pair in ranks:
                heappush(waiting, (ranks[pair], first))
    return [piece for piece in pieces if piece]


def load_bpe(file: Path, codes: Path | None, tokens: SpecialTokens, split: Split) -> BpeVocabulary:
    if codes is None:
        raise DataError(f"{file} is a vocabulary for byte-pair encoding, which needs its codes too")
    return BpeVocabulary(read_token_list(file, tokens), _read_codes(codes), split)


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
