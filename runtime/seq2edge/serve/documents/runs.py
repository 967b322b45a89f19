"""Translate runs of text with marks inside of them, which follow their words.

A document is what is copied as it is and runs of text. A run is translated as a whole, because a sentence does not end
at a bold word; the alignment of words then tells which words of the translation the marks belong to.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from seq2edge.results import Translation
from seq2edge.serve.words import Span, align_words, word_spans

DEEPEST = 64  # marks inside of each other around one word
_SPACES = re.compile(r"[ \t\r\n\f]+")

Kind = Literal["text", "open", "close", "alone"]
Item = tuple[Kind, str]
Escape = Callable[[str], str]
Pair = tuple[str, str]  # an opening and its closing
Stack = tuple[Pair, ...]  # all that is open


@dataclass(frozen=True)
class TextRun:
    """Text that is translated as a whole, with the marks inside of it."""

    items: Sequence[Item]
    escape: Escape = str

    @property
    def text(self) -> str:
        return "".join(content for kind, content in self.items if kind == "text")

    @property
    def has_marks(self) -> bool:
        return any(kind != "text" for kind, _ in self.items)

    def filled(self, translation: Translation) -> str:
        """Return the translation with the marks."""
        if not self.has_marks:
            return self.escape(translation.text)
        stacks, alone = self._stacks()
        placed = self._placed(translation, stacks)
        waiting = _moved(alone, {place for _, _, place in placed})
        parts, end = list[str](), 0
        opened: Stack = ()
        for word, stack, place in placed:
            shared = _shared(opened, stack)
            parts += [close for _, close in reversed(opened[shared:])]
            parts.append(self.escape(translation.text[end : word.start]))
            parts.append(_spaced(waiting.pop(place, ""), parts))
            parts += [mark for mark, _ in stack[shared:]]
            parts.append(self.escape(translation.text[word.start : word.end]))
            opened, end = stack, word.end
        parts += [close for _, close in reversed(opened)]
        parts.append(self.escape(translation.text[end:]))
        return "".join(parts + [_spaced(mark, parts) for mark in waiting.values()])

    def _placed(self, translation: Translation, stacks: dict[int, Stack]) -> list[tuple[Span, Stack, int]]:
        """Return each word of the translation, its marks, and where it comes from in the text; -1 if unknown.

        A word that comes from none has the marks that the words around it have in common.
        """
        sources = {word: spans[0].start for word, spans in align_words(self.text, translation)}
        words = word_spans(translation.text)
        known = [stacks.get(sources[word], ()) if word in sources else None for word in words]
        following, placed = _following(known), list[tuple[Span, Stack, int]]()
        for index, (word, stack) in enumerate(zip(words, known, strict=True)):
            if stack is None:
                before = placed[-1][1] if placed else ()
                stack = before[: _shared(before, following[index])]
            placed.append((word, stack, sources.get(word, -1)))
        return placed

    def _stacks(self) -> tuple[dict[int, Stack], dict[int, str]]:
        """Return the marks that are open at each word, and the marks without text that come before a word."""
        starts = [span.start for span in word_spans(self.text)]
        closing = _closing(self.items)
        stacks: dict[int, Stack] = {}
        alone: dict[int, str] = {}
        stack: Stack = ()
        place, word = 0, 0  # the number of the next word
        for number, (kind, content) in enumerate(self.items):
            if kind == "text":
                place += len(content)
                while word < len(starts) and starts[word] < place:
                    stacks[starts[word]] = stack
                    word += 1
            elif kind == "open":
                stack = (*stack, (content, self.items[closing[number]][1]))
            elif kind == "close":
                stack = stack[:-1]
            else:
                following = starts[word] if word < len(starts) else len(self.text)
                alone[following] = alone.get(following, "") + content
        return stacks, alone


def _spaced(mark: str, before: Sequence[str]) -> str:
    """Return a mark with the white space that it has taken along on the side where it is needed."""
    end = next((part[-1] for part in reversed(before) if part), " ")
    return mark if end.isspace() or not mark[-1:].isspace() else " " + mark.rstrip()


def _moved(alone: dict[int, str], places: Collection[int]) -> dict[int, str]:
    """Put marks whose next word has no translation before the next word that has one, or at the end."""
    known, found = sorted(places), dict[int, str]()
    for place, marks in alone.items():
        at = bisect_left(known, place)
        following = known[at] if at < len(known) else place
        found[following] = found.get(following, "") + marks
    return found


def _closing(items: Sequence[Item]) -> dict[int, int]:
    """Return the number of the item that closes each opening one."""
    found, opened = {}, []
    for number, (kind, _) in enumerate(items):
        if kind == "open":
            opened.append(number)
        elif kind == "close":
            found[opened.pop()] = number
    return found


def _following(known: Sequence[Stack | None]) -> list[Stack]:
    """Return the first known one from each place on."""
    found: list[Stack] = []
    for one in reversed(known):
        found.append(one if one is not None else found[-1] if found else ())
    return found[::-1]


def _shared(first: Sequence[Pair], second: Sequence[Pair]) -> int:
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return count


class Document:
    """Strings that are copied, and runs that are translated."""

    def __init__(self, parts: Iterable[str | TextRun]) -> None:
        self.parts = list(parts)
        self.runs = [part for part in self.parts if isinstance(part, TextRun)]

    @property
    def texts(self) -> list[str]:
        return [run.text for run in self.runs]

    @property
    def needs_alignment(self) -> bool:
        return any(run.has_marks for run in self.runs)

    def without_alignment(self) -> "Document":
        """Return the document with runs that end at each mark, for models that cannot align words."""
        return Document(part for one in self.parts for part in ([one] if isinstance(one, str) else _cut(one)))

    def filled(self, translations: Iterable[Translation]) -> str:
        """Return the document with the translations of its texts."""
        found = iter(translations)
        return "".join(part.filled(next(found)) if isinstance(part, TextRun) else part for part in self.parts)


def _cut(run: TextRun) -> Iterator[str | TextRun]:
    return _at_each_mark(run.items, run.escape) if run.has_marks else iter([run])


def runs(items: Iterable[Item | str], escape: Escape = str) -> Iterator[str | TextRun]:
    """Collect the items between strings, which are copied, into runs; those without a letter are copied, too."""
    run: list[Item] = []
    for item in [*items, ""]:
        if not isinstance(item, str):
            run.append(item)
            continue
        yield from _balanced(run, escape)
        run = []
        yield item


def _balanced(items: list[Item], escape: Escape) -> Iterator[str | TextRun]:
    """Return a run, or its parts if its marks begin or end elsewhere, or are absurdly deep."""
    depth, lowest, highest = 0, 0, 0
    for kind, _ in items:
        depth += (kind == "open") - (kind == "close")
        lowest, highest = min(lowest, depth), max(highest, depth)
    if depth != 0 or lowest != 0 or highest > DEEPEST:
        yield from _at_each_mark(items, escape)
    elif any(kind == "text" and is_visible(content) for kind, content in items):
        items = _joined_empty(items, escape)
        first, last = _core(items)
        yield _copied(items[:first], escape)
        yield from _run(items[first:last], escape)
        yield _copied(items[last:], escape)
    else:
        yield _copied(items, escape)


def _at_each_mark(items: Iterable[Item], escape: Escape) -> Iterator[str | TextRun]:
    for kind, content in items:
        yield from _balanced([(kind, content)], escape) if kind == "text" else [content]


def is_visible(text: str) -> bool:
    return any(letter.isalnum() for letter in text)


def _copied(items: Sequence[Item], escape: Escape) -> str:
    return "".join(escape(content) if kind == "text" else content for kind, content in items)


def _joined_empty(items: Sequence[Item], escape: Escape) -> list[Item]:
    """Return marks around nothing visible, such as an icon or a link around a picture, as one mark without text."""
    closing, found, place = _closing(items), list[Item](), 0
    seen = [*accumulate((kind == "text" and is_visible(one) for kind, one in items), initial=0)]
    while place < len(items):
        last = closing.get(place, place)
        if last > place and seen[last] == seen[place]:
            found.append(("alone", _copied(items[place : last + 1], escape)))
        else:
            found.append(items[place])
            last = place
        place = last + 1
    return found


def _core(items: Sequence[Item]) -> tuple[int, int]:
    """Return where the items begin and end that are inside of the marks around all of the text."""
    first, last, closing = 0, len(items), _closing(items)
    while True:
        if _is_empty(items[first]):
            first += 1
        elif _is_empty(items[last - 1]):
            last -= 1
        elif closing.get(first) == last - 1:
            first, last = first + 1, last - 1
        else:
            return first, last


def _is_empty(item: Item) -> bool:
    kind, content = item
    return kind == "alone" or (kind == "text" and content.isspace())


def _run(items: Sequence[Item], escape: Escape) -> Iterator[str | TextRun]:
    """Return a run and the white space around it; that inside of it is one space, as browsers show it."""
    text = "".join(content for kind, content in items if kind == "text")
    flowing: list[Item] = [(kind, _SPACES.sub(" ", one) if kind == "text" else one) for kind, one in items]
    if flowing[0][0] == "text":
        yield escape(text[: len(text) - len(text.lstrip())])
        flowing[0] = "text", flowing[0][1].lstrip()
    after = ""
    if flowing[-1][0] == "text":
        after = escape(text[len(text.rstrip()) :])
        flowing[-1] = "text", flowing[-1][1].rstrip()
    yield TextRun(_attach_spaces(flowing), escape)
    yield after


def _attach_spaces(items: list[Item]) -> list[Item]:
    """Let marks without text between two spaces take one of them along, since the text needs only one."""
    for index in range(1, len(items) - 1):
        (before, left), (kind, mark), (after, right) = items[index - 1 : index + 2]
        if before == after == "text" and kind == "alone" and left[-1:].isspace() and right[:1].isspace():
            items[index : index + 2] = [("alone", mark + right[0]), ("text", right[1:])]
    return items
