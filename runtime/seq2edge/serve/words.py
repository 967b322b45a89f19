"""Align the words of a text with those of its translation, as positions of characters."""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from seq2edge.results import Translation

_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # of SentencePiece, before a word
# Words, single characters of scripts without spaces, and punctuation.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]|_")


class Span(NamedTuple):
    """Where a word is in its text."""

    start: int
    end: int


def word_spans(text: str) -> list[Span]:
    return [Span(*match.span()) for match in _WORD.finditer(text)]


def align_words(text: str, translation: Translation) -> list[tuple[Span, list[Span]]]:
    """Return each word of a translation with those of the text that most of its tokens attend to."""
    if translation.attention is None:
        return []
    sources, targets = word_spans(text), word_spans(translation.text)
    source_of = _words_of_pieces(text, translation.attention.source, sources)
    target_of = _words_of_pieces(translation.text, translation.attention.target, targets)
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for source, target in translation.attention.alignment:
        if source in source_of and target in target_of:
            votes[target_of[target]][source_of[source]] += 1
    return [
        (span, [sources[one] for one in _likeliest(votes[index])]) for index, span in enumerate(targets) if votes[index]
    ]


def _likeliest(votes: Counter[int]) -> list[int]:
    most = max(votes.values())
    return sorted(one for one, count in votes.items() if count == most)


def _words_of_pieces(text: str, pieces: Sequence[str], words: Sequence[Span]) -> dict[int, int]:
    """Return the index of the word that each piece is part of; pieces that are not in the text have none."""
    starts, found, place = [word.start for word in words], {}, 0
    for index, piece in enumerate(pieces):
        visible = piece.replace(_SPACE, " ").strip()
        at = text.find(visible, place, place + 2 * len(visible) + 20) if visible else -1
        if at < 0:  # a special token, or a piece that was normalized
            continue
        place = at + len(visible)
        word = bisect_right(starts, at) - 1
        if word >= 0 and at < words[word].end:
            found[index] = word
    return found
