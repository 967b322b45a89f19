"""Read Markdown: its marks, code, addresses, front matter and the lines of tables are not translated."""

import re
from collections.abc import Iterator
from itertools import pairwise

from seq2edge.serve.documents.hypertext import tag_item
from seq2edge.serve.documents.runs import Document, Item, TextRun, is_visible, runs

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(?=[\w-]+[ \t]*:)(?:(?!---)[^\n]*\n)*+---[ \t]*(?:\r?\n|\Z)")
_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_CONTAINERS = re.compile(  # quotes, items of lists, tasks and footnotes that a line begins with
    r"[ \t]*(?:(?:>|(?:[-*+]|\d{1,9}[.)]|\[\^[^\]\s]{1,99}\]:)(?=\s))[ \t]*)*(?:\[[ xX]\][ \t]+)?"
)
_HEADING = re.compile(r"(#{1,6}[ \t]+)(.*?)((?:[ \t]#+)?\s*)\Z", re.DOTALL)
_FENCE = re.compile(r"(`{3,}|~{3,})(?!.*`)")
_RAW = re.compile(r"<(?:!--|(script|style|pre|svg|math|textarea)\b)", re.IGNORECASE)
_DEFINITION = re.compile(r"\[[^\]\n]{1,999}\]:[ \t]*\S")
_UNDER_HEADER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*\|[|: \t-]*\r?\n?\Z")
_BREAK = re.compile(r"(?:  |\\)\r?\n\Z")
_INLINE = re.compile(
    r"(?P<alone>!\[[^\]\n]{0,999}\]\([^)\n]{0,999}\)|\[\^[^\]\s]{1,99}\]|(?<!`)(`++)[^`\n]+\2|<!--[^<>]*-->"
    r"|<(?:https?:|mailto:)[^<>\s]*>|https?://[^\s<>()|*`\"]*[\w/]|\\(?=\s*\Z))"
    r"|(?P<text>\\[^\w\s])"
    r"|(?P<tag></?[A-Za-z][^<>\n]*>)"
    r"|(?P<open>\[)(?=[^\[\]\n]*\](?:\([^)\n]{0,999}\)|\[[^\]\n]{0,999}\]))"
    r"|(?P<close>\](?:\([^)\n]{0,999}\)|\[[^\]\n]{0,999}\]))"
    r"|(?P<both>\*{1,3}|_{1,3}(?!\w)|(?<!\w)_{1,3}|~~)"
)
Parts = Iterator[str | TextRun]


def markdown_document(text: str) -> Document:
    """Return a Markdown document; the lines of a paragraph become one."""
    front = _FRONT_MATTER.match(text)
    start = front.end() if front else 0
    return Document([text[:start], *_MarkdownReader().parts(text[start:])])


class _MarkdownReader:
    """Collects the lines of a paragraph, also one in a list or a quote; what is between paragraphs is copied."""

    def __init__(self) -> None:
        self.paragraph: list[str] = []
        self.end = ""  # of the block that is being copied
        self.in_table = False
        self.margin = 0  # where the text of the last item of a list begins

    def parts(self, text: str) -> Parts:
        lines = [*_LINE.findall(text), ""]
        for line, following in pairwise(lines):
            yield from self._line(line, following)
        yield from self._flush()

    def _line(self, line: str, following: str) -> Parts:
        match = _CONTAINERS.match(line)
        prefix = match[0] if match else ""
        rest = line[len(prefix) :]
        if self.end or self._is_copied(prefix, rest):
            self.end = _end_of_copied(rest, self.end)
            self.in_table &= bool(rest.strip())
            yield from (*self._flush(), line)
            return
        self.in_table |= rest.startswith("|") or _UNDER_HEADER.match(following) is not None
        if prefix.strip(" \t>") or self.in_table or not self.paragraph:
            self._indent(prefix)
            yield from (*self._flush(), prefix)
        if self.in_table:
            yield from _cells(rest)
        elif heading := _HEADING.match(rest):
            yield from (*self._flush(), heading[1], *_prose(heading[2]), heading[3])
        else:
            self.paragraph.append(rest)
            yield from self._flush() if _BREAK.search(rest) else ()

    def _is_copied(self, prefix: str, rest: str) -> bool:
        is_code = not (self.paragraph or prefix.strip()) and len(prefix.expandtabs(4)) >= self.margin + 4
        starts = _FENCE.match(rest) or _RAW.match(rest) or _DEFINITION.match(rest)
        return is_code or starts is not None or not is_visible(rest)

    def _indent(self, prefix: str) -> None:
        if prefix.strip(" \t>") or not prefix:
            self.margin = len(prefix.expandtabs(4))

    def _flush(self) -> Parts:
        if self.paragraph:
            *lines, last = self.paragraph
            self.paragraph = []
            yield from _prose(" ".join([*(line.strip() for line in lines), last.lstrip()]))


def _end_of_copied(rest: str, end: str) -> str:
    """Return what ends the block that a line is in or starts; nothing if it ends with the line."""
    fence, raw = _FENCE.match(rest), _RAW.match(rest)
    if not end and raw:
        end = f"</{raw[1].lower()}>" if raw[1] else "-->"
    elif not end:
        return fence[1] if fence else ""
    visible = rest.strip()
    is_closed = not visible.strip(end[0]) if end[0] in "`~" else True
    return "" if is_closed and end in visible.lower() else end


def _cells(row: str) -> Parts:
    for cell in re.split(r"((?<!\\)\|)", row):
        yield from _prose(cell)


def _prose(text: str) -> Parts:
    yield from runs(_items(text)) if is_visible(text) else [text]


def _items(text: str) -> Iterator[Item | str]:
    place = 0
    stack: list[str] = []
    for mark in _INLINE.finditer(text):
        if mark.start() > place:
            yield "text", text[place : mark.start()]
        place = mark.end()
        if mark.lastgroup == "both":
            yield _emphasis(mark, stack)
        elif mark.lastgroup == "text":
            yield "text", mark[0]
        elif mark.lastgroup == "tag":
            yield tag_item(mark[0], mark[0])
        elif mark.lastgroup == "open":
            stack.append("[")
            yield "open", "["
        elif mark.lastgroup == "close" and "[" in stack:
            del stack[stack.index("[") :]
            yield "close", mark[0]
        else:
            yield "alone", mark[0]
    if place < len(text):
        yield "text", text[place:]


def _emphasis(mark: re.Match[str], stack: list[str]) -> Item:
    """Return a mark that opens or closes: which one is told by the white space around it."""
    text, found = mark.string, mark[0]
    if stack and stack[-1] == found and not text[mark.start() - 1].isspace():
        stack.pop()
        return "close", found
    if text[mark.end() : mark.end() + 1].strip() and found not in stack and text.find(found, mark.end()) > 0:
        stack.append(found)
        return "open", found
    return "text", found
