"""Translate documents with markup: HTML, Markdown, subtitles and plain text.

A document is what is copied as it is and runs of text. A run is translated as a whole, because a sentence does not end
at a bold word; the alignment of words then tells which words of the translation the markup belongs to.
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from seq2edge.results import Translation
from seq2edge.serve.words import Span, align_words, word_spans

_IN_SENTENCES = re.compile(  # elements at which a sentence does not end
    "a|abbr|b|bdi|bdo|big|cite|data|del|dfn|em|font|i|ins|label|mark|q|s|small|span|strike|strong|sub|sup|time|tt|u"
)
_COPIED = re.compile("code|kbd|math|pre|samp|script|style|svg|template|textarea|var")  # and not translated
_NAME = re.compile(r"</?([A-Za-z][^\s/>]*)")
_TAG = re.compile(r"<(?:[^>\"']|\"[^\"]*\"|'[^']*')*+>")
_TAG_START = re.compile(r"</?[A-Za-z!?]")
_UNTRANSLATED = re.compile(r"\btranslate\s*=\s*[\"']?no\b|\bclass\s*=\s*[\"'][^\"']*\bnotranslate\b")

DEEPEST = 64  # marks inside of each other around one word

Kind = Literal["text", "open", "close", "alone"]
Item = tuple[Kind, str]
Pair = tuple[str, str]  # an opening and its closing
Stack = tuple[Pair, ...]  # all that is open


@dataclass
class TextRun:
    """Text that is translated as a whole, with the markup inside of it."""

    items: list[Item] = field(default_factory=list)
    escape: Callable[[str], str] = str

    @property
    def text(self) -> str:
        return "".join(content for kind, content in self.items if kind == "text")

    def filled(self, translation: Translation) -> str:
        """Return the translation with the markup, and the white space around the text."""
        text = self.text
        before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        return before + self._marked(translation) + after

    def _marked(self, translation: Translation) -> str:
        if all(kind == "text" for kind, _ in self.items):
            return self.escape(translation.text)
        stacks, waiting = self._stacks()
        result, end = "", 0
        open_tags: Stack = ()
        for word, stack, place in self._placed(translation, stacks):
            shared = _shared(open_tags, stack)
            result += "".join(close for _, close in reversed(open_tags[shared:]))
            result += self.escape(translation.text[end : word.start]) + waiting.pop(place, "")
            result += "".join(tag for tag, _ in stack[shared:]) + self.escape(translation.text[word.start : word.end])
            open_tags, end = stack, word.end
        result += "".join(close for _, close in reversed(open_tags)) + self.escape(translation.text[end:])
        return result + "".join(waiting.values())

    def _placed(self, translation: Translation, stacks: dict[int, Stack]) -> list[tuple[Span, Stack, int]]:
        """Return each word of the translation, its markup, and where it comes from in the text; -1 if unknown.

        A word that comes from none has the markup that the words around it have in common.
        """
        lead = len(self.text) - len(self.text.lstrip())
        sources = {word: lead + spans[0].start for word, spans in align_words(self.text.strip(), translation)}
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
        """Return the markup that is open at each word, and the markup without text that comes before a word."""
        starts = [span.start for span in word_spans(self.text)]
        closing = self._closing()
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
                stack = (*stack, (content, closing[number]))
            elif kind == "close":
                stack = stack[:-1]
            else:
                following = starts[word] if word < len(starts) else -1
                alone[following] = alone.get(following, "") + content
        return stacks, alone

    def _closing(self) -> dict[int, str]:
        """Return the mark that closes each opening one, by the number of its item."""
        found, opened = {}, []
        for number, (kind, content) in enumerate(self.items):
            if kind == "open":
                opened.append(number)
            elif kind == "close":
                found[opened.pop()] = content
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


class Markup:
    """A document: strings that are copied, and runs that are translated."""

    def __init__(self, parts: Iterable[str | TextRun]) -> None:
        self.parts = list(parts)
        self.runs = [part for part in self.parts if isinstance(part, TextRun)]

    @property
    def texts(self) -> list[str]:
        return [run.text.strip() for run in self.runs]

    @property
    def needs_alignment(self) -> bool:
        return any(kind != "text" for run in self.runs for kind, _ in run.items)

    def filled(self, translations: Sequence[Translation]) -> str:
        """Return the document with the translations of its texts."""
        found = iter(translations)
        return "".join(part.filled(next(found)) if isinstance(part, TextRun) else part for part in self.parts)


def text_document(text: str) -> Markup:
    """Return a plain text, whose line ends the translator keeps."""
    return Markup([TextRun([("text", text)])] if text.strip() else [text])


def html_document(text: str) -> Markup:
    """Return an HTML document or fragment; code, scripts and what is marked so are not translated."""
    return Markup(_runs(_html_items(text), _escape))


def _escape(text: str) -> str:
    return html.escape(text, quote=False)


def _runs(items: Iterable[Item | str], escape: Callable[[str], str] = str) -> Iterator[str | TextRun]:
    """Collect the items between strings, which are copied, into runs; those without a letter are copied, too."""
    run: list[Item] = []
    for item in [*items, ""]:
        if not isinstance(item, str):
            run.append(item)
            continue
        yield from _balanced(run, escape)
        run = []
        yield item


def _balanced(items: list[Item], escape: Callable[[str], str]) -> Iterator[str | TextRun]:
    """Return a run, or its parts if its markup begins or ends elsewhere, or is absurdly deep."""
    depth, lowest, highest = 0, 0, 0
    for kind, _ in items:
        depth += (kind == "open") - (kind == "close")
        lowest, highest = min(lowest, depth), max(highest, depth)
    if depth == lowest == 0 and highest <= DEEPEST:
        visible = any(letter.isalnum() for kind, content in items if kind == "text" for letter in content)
        if visible:
            yield TextRun(_attach_spaces(items), escape)
        else:
            yield "".join(escape(content) if kind == "text" else content for kind, content in items)
        return
    for kind, content in items:
        yield from _balanced([(kind, content)], escape) if kind == "text" else [content]


def _attach_spaces(items: list[Item]) -> list[Item]:
    """Let markup without text take a white space next to it along, of which the text needs only one."""
    items = list(items)
    for index, (kind, content) in enumerate(items):
        if kind != "alone":
            continue
        after = items[index + 1] if index + 1 < len(items) else ("alone", "")
        before = items[index - 1] if index else ("alone", "")
        if after[0] == "text" and after[1][:1].isspace():
            rest = after[1].lstrip()
            items[index : index + 2] = [(kind, content + after[1][: len(after[1]) - len(rest)]), ("text", rest)]
        elif before[0] == "text" and before[1][-1:].isspace():
            rest = before[1].rstrip()
            items[index - 1 : index + 1] = [("text", rest), (kind, before[1][len(rest) :] + content)]
    return items


def _html_items(text: str) -> Iterator[Item | str]:
    place, unclosed = 0, set[str]()
    while place < len(text):
        start = text.find("<", place)
        start = len(text) if start < 0 else start
        if start > place:
            yield "text", html.unescape(text[place:start])
        place = start
        if text.startswith("<!--", start):
            end = text.find("-->", start)
            place = len(text) if end < 0 else end + 3
            yield "alone", text[start:place]
        elif start < len(text):
            tag = _TAG.match(text, start) if _TAG_START.match(text, start) else None
            if tag is None:  # an unfinished tag, or an ordinary character
                place = len(text) if _TAG_START.match(text, start) else start + 1
                yield "text", html.unescape(text[start:place])
            else:
                place = _copied_end(text, tag, unclosed)
                yield _tag_item(text[start:place], tag[0])


def _copied_end(text: str, tag: re.Match[str], unclosed: set[str]) -> int:
    """Return where an element ends that is not translated; of others, where their tag ends.

    ``unclosed`` remembers the elements that do not end, so that the text is searched only once for each.
    """
    name = _name(tag[0])
    is_copied = _COPIED.fullmatch(name) is not None or _UNTRANSLATED.search(tag[0]) is not None
    if not is_copied or name in unclosed or tag[0].startswith("</") or tag[0].endswith("/>"):
        return tag.end()
    close = re.compile(rf"</{re.escape(name)}\s*+>", re.IGNORECASE).search(text, tag.end())
    if close is None:
        unclosed.add(name)
        return tag.end()
    return close.end()


def _tag_item(whole: str, tag: str) -> Item | str:
    name = _name(tag)
    in_sentence = _IN_SENTENCES.fullmatch(name) is not None
    if name in ("code", "kbd", "samp", "var", "img", "wbr") or (in_sentence and len(whole) > len(tag)):
        return "alone", whole
    if not in_sentence:
        return whole
    return ("close" if tag.startswith("</") else "open"), tag


def _name(tag: str) -> str:
    match = _NAME.match(tag)
    return match[1].lower() if match else ""


_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_BLOCK = re.compile(r"\s*(?:(?:>|[-*+]|\d{1,9}[.)]|#{1,6})(?=\s)\s*(?:\[[ xX]\]\s+)?)*")
_INLINE = re.compile(
    r"(?P<alone>!\[[^\]\n]{0,999}\]\([^)\n]{0,999}\)|(?<!`)(`++)[^`\n]+\2|<[^<>\n]*>|\\.)"
    r"|(?P<open>\[)(?=[^\[\]\n]*\]\([^)\n]{0,999}\))|(?P<close>\]\([^)\n]{0,999}\))|(?P<both>\*{1,3}|_{1,3}(?!\w)|(?<!\w)_{1,3}|~~)"
)


def markdown_document(text: str) -> Markup:
    """Return a Markdown document: its marks, code, addresses and tables' lines stay."""
    return Markup(part for block in _markdown_blocks(text) for part in block)


def _markdown_blocks(text: str) -> Iterator[Iterator[str | TextRun]]:
    fence, paragraph = "", ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        prefix = _BLOCK.match(line)
        ordinary = not fence and not mark and line.strip() and prefix is not None and not prefix[0].strip()
        if ordinary and not line.startswith(("    ", "\t", "|")) and not line.endswith("  \n"):
            paragraph += line if not paragraph else line.lstrip()
            continue
        yield _markdown_paragraph(paragraph)
        paragraph = ""
        if fence or mark:
            closes = mark is not None and fence and mark[1].startswith(fence) and not line[mark.end() :].strip()
            fence = "" if closes else fence or (mark[1] if mark else "")
            yield iter([line])
        elif not line.strip() or (line.startswith(("    ", "\t")) and prefix is not None and not prefix[0].strip()):
            yield iter([line])
        elif line.lstrip().startswith("|"):
            yield (part for cell in re.split(r"(\|)", line) for part in _markdown_paragraph(cell))
        else:
            start = prefix.end() if prefix else 0
            yield iter([line[:start]])
            yield _markdown_paragraph(line[start:])
    yield _markdown_paragraph(paragraph)


def _markdown_paragraph(text: str) -> Iterator[str | TextRun]:
    if not any(letter.isalnum() for letter in text):
        return iter([text])
    visible = text.rstrip()
    first, *others = visible.split("\n")
    joined = " ".join([first.rstrip(), *(line.strip() for line in others)])
    return iter([*_runs(_markdown_items(joined)), text[len(visible) :]])


def _markdown_items(text: str) -> Iterator[Item | str]:
    place = 0
    stack: list[str] = []
    for mark in _INLINE.finditer(text):
        if mark.start() > place:
            yield "text", text[place : mark.start()]
        place, kind = mark.end(), mark.lastgroup
        if kind == "both":
            kind = "close" if mark[0] in stack else "open"
            if kind == "open" and text.find(mark[0], place) < 0:
                yield "text", mark[0]
                continue
        if kind == "open":
            stack.append(mark[0])
            yield "open", mark[0]
        elif kind == "close" and stack:
            stack.pop()
            yield "close", mark[0]
        else:
            yield "alone", mark[0]
    if place < len(text):
        yield "text", text[place:]


_TIMING = re.compile(r"(?:\d+[ \t]*\r?\n)?[ \t]*\d[\d:.,]*[ \t]*-->[^\n]*\n", re.ASCII)


def subtitle_document(text: str) -> Markup:
    """Return subtitles: numbers and times stay, and the lines of a cue are one text."""
    return Markup(part for cue in re.split(r"(\r?\n[ \t]*\r?\n)", text) for part in _cue(cue))


def _cue(cue: str) -> Iterator[str | TextRun]:
    timing = _TIMING.match(cue.lstrip("\n"))
    start = len(cue) - len(cue.lstrip("\n")) + (timing.end() if timing else 0)
    yield cue[:start]
    lines = cue[start:].splitlines()
    if not timing or not lines:
        yield cue[start:]
        return
    end = cue[start:][len(cue[start:].rstrip()) :]
    for part in _runs(_html_items(" ".join(line.strip() for line in lines)), str):
        yield Cue(part.items, lines=len(lines)) if isinstance(part, TextRun) else part
    yield end


@dataclass
class Cue(TextRun):
    """The text of a subtitle, which has as many lines as before."""

    lines: int = 1

    def filled(self, translation: Translation) -> str:
        words = super().filled(translation).split()
        wanted = sum(map(len, words)) / self.lines
        lines: list[list[str]] = [[]]
        for word in words:
            if len(lines) < self.lines and sum(map(len, lines[-1])) + len(word) / 2 > wanted:
                lines.append([])
            lines[-1].append(word)
        return "\n".join(" ".join(line) for line in lines)


DOCUMENTS: dict[str, Callable[[str], Markup]] = {
    ".txt": text_document,
    ".html": html_document,
    ".htm": html_document,
    ".md": markdown_document,
    ".markdown": markdown_document,
    ".srt": subtitle_document,
}
