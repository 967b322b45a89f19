"""Encode text with byte-pair encoding, using codes of subword-nmt or fastBPE.

The codes list the merges of adjacent pieces in order. In the vocabulary file, a piece inside a word ends in ``@@``.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path

from seq2edge.config.tokenizer import SpecialTokens, Split
from seq2edge.errors import DataError
from seq2edge.text.vocabularies.plain import TokenList, TokenListVocabulary, join_words, read_token_list, split_words

CONTINUATION, WORD_END = "@@", "</w>"
MAX_CACHED_WORDS = 50_000  # most words of a text occurred before
Merge = tuple[str, str]
NO_PAIR: Merge = ("", "")


class BpeVocabulary(TokenListVocabulary):
    """A byte-pair encoding vocabulary: the tokens are pieces of words."""

    def __init__(self, token_list: TokenList, merges: list[Merge], split: Split) -> None:
        super().__init__(token_list)
        self.split = split
        self.ranks = {merge: rank for rank, merge in reversed(list(enumerate(merges)))}  # of duplicates, the first
        self.cache: dict[str, list[str]] = {}

    def tokenize(self, text: str) -> list[str]:
        pieces = [piece for word in split_words(text, self.split) for piece in self._split_word(word)]
        if self.split == "blanks":  # other whitespace separates pieces, but is no piece itself
            return [part for piece in pieces for part in piece.split()]
        return pieces

    def decode(self, ids: list[int]) -> str:
        words = " ".join(self.token_list.tokens_of(ids)).replace(f"{CONTINUATION} ", "").removesuffix(CONTINUATION)
        return join_words(words.split(" "), self.split)

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        pieces = (piece.removesuffix(CONTINUATION) for piece in self.tokenize(text))
        return self.token_list.unknown_characters(pieces, ids)

    def _split_word(self, word: str) -> list[str]:
        if word not in self.cache:
            if len(self.cache) >= MAX_CACHED_WORDS:
                self.cache = {}
            *inner, last = apply_merges([*word[:-1], word[-1] + WORD_END], self.ranks)
            self.cache[word] = [*(piece + CONTINUATION for piece in inner), last.removesuffix(WORD_END)]
        return self.cache[word]


def apply_merges(pieces: list[str], ranks: dict[Merge, int]) -> list[str]:
    """Merge adjacent pieces, each merge at all positions at once and in the order of ``ranks``, until none is left.

    A piece that was merged into the one before it becomes empty. A heap of candidates avoids quadratic time for long
    texts without spaces.
    """
    pieces = list(pieces)
    after, before = list(range(1, len(pieces) + 1)), list(range(-1, len(pieces) - 1))  # indices of the neighbours
    heap = [(ranks[pair], index) for index, pair in enumerate(pairwise(pieces)) if pair in ranks]
    heapify(heap)
    while heap:
        rank = heap[0][0]
        merged = []
        while heap and heap[0][0] == rank:
            _, first = heappop(heap)
            second = after[first]
            if second == len(pieces) or ranks.get((pieces[first], pieces[second])) != rank:
                continue  # one of the two was merged with another piece
            pieces[first], pieces[second] = pieces[first] + pieces[second], ""
            after[first] = after[second]
            if after[first] < len(pieces):
                before[after[first]] = first
            merged.append(first)
        for first in {neighbour for index in merged for neighbour in (before[index], index)}:
            pair = (pieces[first], pieces[after[first]]) if first >= 0 and after[first] < len(pieces) else NO_PAIR
            if pair in ranks:
                heappush(heap, (ranks[pair], first))
    return [piece for piece in pieces if piece]


def load_bpe(file: Path, codes: Path | None, tokens: SpecialTokens, split: Split) -> BpeVocabulary:
    if codes is None:
        raise DataError(f"{file} is a vocabulary for byte-pair encoding, which needs a file with codes")
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
        raise DataError(f"{path} does not contain BPE codes of subword-nmt 0.2 or newer, or of fastBPE")
    return [(first, second) for first, second in merges]
