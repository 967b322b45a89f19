"""Cut a long text into pieces that a model can read, and join what becomes of them.

Texts as the model can read them: whole, split or cut.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from seq2edge.config.text import Long
from seq2edge.errors import CannotSplitError, TextTooLongError
from seq2edge.text.sentence_splitter import CLOSING, QUOTES, UNSPACED, split_sentences
from seq2edge.text.tokenizer import Tokenizer

FIRST_TRY = 1024  # characters, longer than most sentences
LONGEST_CHARACTER = 32  # code points; no writing needs more, only pranks have them
VIRAMA = 9  # Unicode's combining class of the signs that tie two consonants of an Indic script

_CLAUSES = re.compile(rf"[、，；：､၊፣-፦།]+[{CLOSING}]*|[,;:–—،؛՝·\u037e]+[{CLOSING}]*(?=\s)")
_VISIBLE = re.compile(r"\S")
_SPACES = re.compile(r"\s+|\u200b")
_UNSPACED = re.compile(f"[{UNSPACED}]")
# Behind others: joiner, skin tones, tags, second half of a surrogate pair, Thai and Lao am, kana voicing, Hangul jamo.
_LEANING = re.compile(
    "[\u200d\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\udc00-\udfff\u0e33\u0eb3\uff9e\uff9f\u1160-\u11ff]"
)
# Before others: joiner, Thai and Lao vowels that are written first.
_REACHING = re.compile("[\u200d\u0e40-\u0e44\u0ec0-\u0ec4]")
_NEUTRAL = QUOTES + "…—–·()[]"


def fit(text: str, count: Callable[[str], int], longest: int) -> list[str]:
    """The text as pieces of which none has more than ``longest`` tokens, as ``count`` counts them.

    A sentence is a piece. One that is too long is cut as late as possible: behind a clause, else at a space, else
    between two characters. Only if even one character has too many tokens, there is a ``CannotSplitError``.
    """

    def fits(piece: str) -> bool:
        return count(piece) <= longest

    return [piece for sentence in split_sentences(text) for piece in _Sentence(sentence, fits).pieces()]


def join(texts: Sequence[str]) -> str:
    """The texts in a row, with a space between two unless both sides are of a script that is written without spaces."""
    result: list[str] = []
    for text in filter(None, map(str.strip, texts)):
        if result and not (_is_unspaced(result[-1].rstrip(_NEUTRAL)[-1:]) and _is_unspaced(text.lstrip(_NEUTRAL)[:1])):
            result.append(" ")
        result.append(text)
    return "".join(result)


def stable_prefix(text: str) -> str:
    """As much of a joined text as stays when its last part grows: a quote at the end may yet lose the space before."""
    end = len(text)
    while end and (text[end - 1].isspace() or text[end - 1] in _NEUTRAL):
        end -= 1
    return text[:end]


def _is_unspaced(character: str) -> bool:
    return _UNSPACED.match(character) is not None


class _Sentence:
    """A sentence that is cut from its beginning; counting is what costs, so it is asked for little."""

    def __init__(self, text: str, fits: Callable[[str], bool]) -> None:
        self.text, self._fit = text, fits
        self.length = FIRST_TRY  # characters that are tried first

    def pieces(self) -> list[str]:
        found: list[str] = []
        start = 0
        while start < len(self.text):
            end = self._end(start)
            found.append(self._piece(start, end))
            self.length = 2 * (end - start)  # the next piece will be about as long
            visible = _VISIBLE.search(self.text, end)
            start = visible.start() if visible else len(self.text)
        return found

    @cached_property
    def places(self) -> tuple[list[int], list[int], list[int]]:
        """Where the sentence may be cut: behind clauses, at spaces, between characters."""
        characters = character_ends(self.text)
        whole = set(characters)
        clauses, spaces = ([m.end() for m in found.finditer(self.text)] for found in (_CLAUSES, _SPACES))
        return [end for end in clauses if end in whole], [end for end in spaces if end in whole], characters

    def _end(self, start: int) -> int:
        """Where the piece that begins at ``start`` ends."""
        limit = self._too_far(start)
        if limit is None:
            return len(self.text)
        *better, characters = (_between(places, start, limit) for places in self.places)
        if not characters:
            characters = [self.places[-1][bisect_right(self.places[-1], start)]]
        for ends in (*better, characters):
            end = self._last_that_fits(start, ends)
            if end is not None:
                return end
        alone = self._piece(start, characters[0])
        raise CannotSplitError(f"{alone!a} alone has more tokens than fit into a piece; take it out of the text")

    def _too_far(self, start: int) -> int | None:
        """An end with which the piece does not fit, at most some times too far; none if the whole rest fits."""
        length = self.length
        while self._fits(start, start + length):
            if start + length >= len(self.text):
                return None
            length *= 2
        return start + length

    def _last_that_fits(self, start: int, ends: list[int]) -> int | None:
        """The last end with which the piece fits, by bisection; none only if the first was tried and does not."""
        good, bad = -1, len(ends)
        while bad - good > 1:
            middle = (good + bad) // 2
            if self._fits(start, ends[middle]):
                good = middle
            else:
                bad = middle
        return ends[good] if good >= 0 else None

    def _fits(self, start: int, end: int) -> bool:
        return self._fit(self._piece(start, end))

    def _piece(self, start: int, end: int) -> str:
        return self.text[start:end].strip()


def character_ends(text: str) -> list[int]:
    """Where the characters of a text end, as a reader sees them: letters with their marks, emoji, flags, syllables."""
    ends, flags = [0], 0
    for place, (before, after) in enumerate(pairwise(text), start=1):
        flags = flags + 1 if _is_flag(before) else 0
        whole = not (_leans_back(after) or _reaches_on(before) or (flags % 2 and _is_flag(after)))
        if whole or place - ends[-1] >= LONGEST_CHARACTER:
            ends.append(place)
    return [*ends[1:], len(text)]


def _leans_back(character: str) -> bool:
    return unicodedata.category(character)[0] == "M" or _LEANING.match(character) is not None


def _reaches_on(character: str) -> bool:
    return unicodedata.combining(character) == VIRAMA or _REACHING.match(character) is not None


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _between(places: list[int], start: int, end: int) -> list[int]:
    return places[bisect_right(places, start) : bisect_left(places, end)]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A text, or as much of it as the model reads at once."""

    number: int  # of the text
    place: int = 0  # among the parts of the text
    text: str
    ids: list[int]
    unknown: int  # characters
    truncated: bool = False


def make_segments(texts: Sequence[str], tokenizer: Tokenizer, *, longest: int, long: Long) -> list[Segment]:
    """The parts of all texts in order; one that says nothing has none."""
    encoded = tokenizer.encode_or_nothing(texts)
    parts: list[Segment] = []
    for number, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
        if len(ids) > longest and long == "split":
            parts += _split(number, text, tokenizer, longest)
        elif len(ids) > longest and long == "error":
            raise TextTooLongError(number, len(ids), longest, advice='split it (--long split, or long="split")')
        elif ids:
            parts.append(_whole(text, ids, tokenizer, longest, number=number))
    return parts


def _whole(text: str, ids: list[int], tokenizer: Tokenizer, longest: int, *, number: int, place: int = 0) -> Segment:
    cut = len(ids) > longest
    kept = tokenizer.frame.cut(ids, longest) if cut else ids
    unknown = tokenizer.unknown_characters(text, kept)
    return Segment(number=number, place=place, text=text, ids=kept, unknown=unknown, truncated=cut)


def _split(number: int, text: str, tokenizer: Tokenizer, longest: int) -> Iterator[Segment]:
    tag, rest = tokenizer.split_tag(text)
    pieces = [tag + piece for piece in fit(rest, lambda piece: len(tokenizer.encode([tag + piece])[0]), longest)]
    encoded = zip(pieces, tokenizer.encode_or_nothing(pieces), strict=True)
    for place, (piece, ids) in enumerate((piece, ids) for piece, ids in encoded if ids):
        yield _whole(piece, ids, tokenizer, longest, number=number, place=place)
