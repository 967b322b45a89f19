"""Split texts into segments that a model can process, and join the translations.

A text is split into sentences for a model that was trained on single ones, and if it has too many tokens. A sentence
that is still too long is split after a clause, at a space or between two characters.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise

from seq2edge.config.text import LongText, Split
from seq2edge.errors import CannotSplitError, TextTooLongError
from seq2edge.text.sentence_splitter import CLOSING, QUOTES, UNSPACED, split_sentences
from seq2edge.text.tokenizer import Tokenizer

FIRST_LENGTH = 1024  # characters that are tried first, longer than most sentences
MAX_CHARACTER_LENGTH = 32  # code points; no script needs more, only abuse of combining marks has it
VIRAMA = 9  # Unicode combining class of the signs that join two consonants of an Indic script

_CLAUSES = re.compile(rf"[、，；：､၊፣-፦།]+[{CLOSING}]*|[,;:–—،؛՝·\u037e]+[{CLOSING}]*(?=\s)")
_VISIBLE = re.compile(r"\S")
_SPACES = re.compile(r"\s+|\u200b")
_UNSPACED = f"[{UNSPACED}]"  # a large class takes milliseconds to compile, so only when it is needed
# Part of the character before: joiner, skin tones, tags, low surrogates, Thai and Lao am, kana voicing, Hangul jamo.
_EXTENDS = re.compile(
    "[\u200d\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\udc00-\udfff\u0e33\u0eb3\uff9e\uff9f\u1160-\u11ff]"
)
# Part of the character after: joiner, Thai and Lao vowels that are written first.
_PREPENDS = re.compile("[\u200d\u0e40-\u0e44\u0ec0-\u0ec4]")
_NEUTRAL = QUOTES + "…—–·()[]"


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A text, or a part of it that the model translates at once."""

    text_index: int  # of the text in the batch
    sentence: int = 0  # index of the sentence in its text, if the text is split into sentences
    index: int = 0  # of the segment in its text
    space: str = ""  # white space of the text before the segment
    text: str
    ids: list[int]
    unknown: int  # number of characters that the vocabulary lacks
    truncated: bool = False


@dataclass(frozen=True)
class _Piece:
    """A text or one of its sentences, before it is tokenized."""

    text_index: int
    sentence: int
    space: str  # before it
    tag: str  # of the language, which every segment needs
    text: str
    is_sentence: bool = True  # one of several


def make_segments(
    texts: Sequence[str], tokenizer: Tokenizer, *, max_tokens: int, long: LongText, split: Split = "none"
) -> list[Segment]:
    """Return the segments of all texts in order; a text without visible characters has none.

    With ``split="sentences"`` each sentence is a segment, otherwise a text that the model can process at once. What is
    still too long is treated as ``long`` says.
    """
    pieces = [piece for index, text in enumerate(texts) for piece in _pieces(index, text, tokenizer, split)]
    segments: list[Segment] = []
    for piece, ids in zip(pieces, tokenizer.encode_visible([piece.tag + piece.text for piece in pieces]), strict=True):
        if len(ids) > max_tokens and long == "split":
            try:
                segments += _split(piece, tokenizer, max_tokens)
            except CannotSplitError as error:
                error.index = piece.text_index
                raise
        elif len(ids) > max_tokens and long == "error":
            name = "a sentence of text" if piece.is_sentence else "text"
            advice = 'split it (--long split, or long="split")'
            raise TextTooLongError(piece.text_index, len(ids), max_tokens, name=name, advice=advice)
        else:
            segments.append(_segment(piece, piece.text, piece.space, ids, tokenizer, max_tokens))
    return list(_numbered(segments))


def _pieces(text_index: int, text: str, tokenizer: Tokenizer, split: Split) -> Iterator[_Piece]:
    tag, rest = tokenizer.split_tag(text) if split == "sentences" else ("", text)
    sentences = split_sentences(rest) if split == "sentences" else [rest]
    if len(sentences) < 2:
        yield _Piece(text_index, 0, "", "", text, is_sentence=False)
        return
    for number, (sentence, space) in enumerate(zip(sentences, _spaces_before(rest, sentences), strict=True)):
        yield _Piece(text_index, number, space, tag, sentence)


def _split(piece: _Piece, tokenizer: Tokenizer, max_tokens: int) -> Iterator[Segment]:
    tag, rest = (piece.tag, piece.text) if piece.tag else tokenizer.split_tag(piece.text)

    def count_tokens(part: str) -> int:
        return len(tokenizer.encode([tag + part])[0])

    parts = split_to_max_tokens(rest, count_tokens, max_tokens)
    encoded = tokenizer.encode_visible([tag + part for part in parts])
    for part, space, ids in zip(parts, _spaces_before(rest, parts, first=piece.space), encoded, strict=True):
        yield _segment(replace(piece, tag=tag), part, space, ids, tokenizer, max_tokens)


def _segment(piece: _Piece, part: str, space: str, ids: list[int], tokenizer: Tokenizer, max_tokens: int) -> Segment:
    text, truncated = piece.tag + part, len(ids) > max_tokens
    kept = tokenizer.frame.truncate(ids, max_tokens) if truncated else ids
    return Segment(
        text_index=piece.text_index,
        sentence=piece.sentence,
        space=space,
        text=text,
        ids=kept,
        unknown=tokenizer.unknown_characters(text, kept) if kept else 0,
        truncated=truncated,
    )


def _numbered(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Number the segments of each text, without those that have no visible characters; white space is kept."""
    for _, of_text in groupby(segments, key=lambda segment: segment.text_index):
        space, index = "", 0
        for segment in of_text:
            space += segment.space
            if segment.ids:
                changed = (index, space) != (segment.index, segment.space)
                yield replace(segment, index=index, space=space) if changed else segment
                space, index = "", index + 1


def _spaces_before(text: str, parts: Sequence[str], *, first: str = "") -> Iterator[str]:
    """Yield the white space before each part of a text, which is all that is not in a part; ``first`` is given."""
    end = 0
    for part in parts:
        start = text.index(part, end)
        yield text[end:start] if end else first
        end = start + len(part)


def split_to_max_tokens(text: str, count_tokens: Callable[[str], int], max_tokens: int) -> list[str]:
    """Split a text into sentences, and sentences with more than ``max_tokens`` tokens into parts.

    A sentence is split as late as possible: after a clause, else at a space, else between two characters. A single
    character with too many tokens is a ``CannotSplitError``.
    """

    def is_short(part: str) -> bool:
        return count_tokens(part) <= max_tokens

    return [part for sentence in split_sentences(text) for part in _SentenceSplit(sentence, is_short).parts()]


class _SentenceSplit:
    """Split a sentence from its start; counting tokens is expensive, so this is done as rarely as possible."""

    def __init__(self, text: str, is_short: Callable[[str], bool]) -> None:
        self.text, self._is_short = text, is_short
        self.length = FIRST_LENGTH  # characters to try first

    def parts(self) -> list[str]:
        parts: list[str] = []
        start = 0
        while start < len(self.text):
            end = self._end(start)
            parts.append(self._part(start, end))
            self.length = 2 * (end - start)  # the next part will have a similar length
            visible = _VISIBLE.search(self.text, end)
            start = visible.start() if visible else len(self.text)
        return parts

    @cached_property
    def split_points(self) -> tuple[list[int], list[int], list[int]]:
        """Where the sentence may be split: after clauses, at spaces, between characters."""
        characters = character_ends(self.text)
        valid = set(characters)
        clauses, spaces = ([m.end() for m in pattern.finditer(self.text)] for pattern in (_CLAUSES, _SPACES))
        return [end for end in clauses if end in valid], [end for end in spaces if end in valid], characters

    def _end(self, start: int) -> int:
        """Return the end of the part that begins at ``start``."""
        limit = self._too_long_end(start)
        if limit is None:
            return len(self.text)
        *better, characters = (_between(points, start, limit) for points in self.split_points)
        if not characters:
            characters = [self.split_points[-1][bisect_right(self.split_points[-1], start)]]
        for ends in (*better, characters):
            end = self._last_short_end(start, ends)
            if end is not None:
                return end
        character = self._part(start, characters[0])
        raise CannotSplitError(f"the character {character!a} has more tokens than the model takes; remove it")

    def _too_long_end(self, start: int) -> int | None:
        """Return an end that makes the part too long, but not by much; None if the whole rest is short enough."""
        length = self.length
        while self._is_short(self._part(start, start + length)):
            if start + length >= len(self.text):
                return None
            length *= 2
        return start + length

    def _last_short_end(self, start: int, ends: list[int]) -> int | None:
        """Return the last end that makes the part short enough, by bisection; None if not even the first does."""
        good, bad = -1, len(ends)
        while bad - good > 1:
            middle = (good + bad) // 2
            if self._is_short(self._part(start, ends[middle])):
                good = middle
            else:
                bad = middle
        return ends[good] if good >= 0 else None

    def _part(self, start: int, end: int) -> str:
        return self.text[start:end].strip()


def character_ends(text: str) -> list[int]:
    """Return where the characters end, as a reader sees them: letters with their marks, emoji, flags, syllables."""
    ends, flags = [0], 0
    for position, (before, after) in enumerate(pairwise(text), start=1):
        flags = flags + 1 if _is_flag(before) else 0
        is_end = not (_extends_previous(after) or _prepends_next(before) or (flags % 2 and _is_flag(after)))
        if is_end or position - ends[-1] >= MAX_CHARACTER_LENGTH:
            ends.append(position)
    return [*ends[1:], len(text)]


def _extends_previous(character: str) -> bool:
    return unicodedata.category(character)[0] == "M" or _EXTENDS.match(character) is not None


def _prepends_next(character: str) -> bool:
    return unicodedata.combining(character) == VIRAMA or _PREPENDS.match(character) is not None


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _between(points: list[int], start: int, end: int) -> list[int]:
    return points[bisect_right(points, start) : bisect_left(points, end)]


def join_texts(texts: Sequence[str], spaces: Sequence[str] = ()) -> str:
    """Join texts with the white space that was before each of them, by default a space.

    Between two characters of scripts that are written without spaces a single space is left out, and between others
    there is always one.
    """
    result: list[str] = []
    pending, last = "", ""  # white space and the last character that is not neutral
    for text, space in zip(texts, spaces or [" "] * len(texts), strict=True):
        pending, text = _add_space(pending, space), text.strip()
        if result and text:
            is_unspaced = _is_unspaced(last) and _is_unspaced(text.lstrip(_NEUTRAL)[:1])
            result.append(pending if pending not in ("", " ") else "" if is_unspaced else " ")
        if text:
            result.append(text)
            pending, last = "", stable_prefix(text)[-1:] or last
    return "".join(result)


def _add_space(before: str, space: str) -> str:
    """Return the white space around a missing text; plain spaces do not add up."""
    return before + space if (before + space).strip(" ") else max(before, space, key=len)


def stable_prefix(text: str) -> str:
    """Return the part of a joined text that stays when its last part grows: the space before a quote may still go."""
    end = len(text)
    while end and (text[end - 1].isspace() or text[end - 1] in _NEUTRAL):
        end -= 1
    return text[:end]


class GrowingText:
    """The joined translations of the first segments of a text."""

    def __init__(self) -> None:
        self._texts, self._spaces = [""], [""]  # the joined text, and empty translations after it

    def joined(self, text: str, space: str) -> str:
        """Return the text with one more translation, and the white space before it."""
        return join_texts([*self._texts, text], [*self._spaces, space])

    def add(self, text: str, space: str) -> None:
        self._texts, self._spaces = [*self._texts, text], [*self._spaces, space]
        if text.strip():
            self._texts, self._spaces = [join_texts(self._texts, self._spaces)], [""]


def _is_unspaced(character: str) -> bool:
    return re.match(_UNSPACED, character) is not None
