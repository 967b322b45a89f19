"""Read SubRip subtitles: numbers, times and the tags of players are not translated."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from seq2edge.results import Translation
from seq2edge.serve.documents.hypertext import html_items
from seq2edge.serve.documents.runs import Document, Item, TextRun, runs

_TIMING = re.compile(r"\s*+(?:\d++[ \t]*\r?\n)?[ \t]*\d[\d:.,]*[ \t]*-->[^\n]*\n", re.ASCII)
_OVERRIDE = re.compile(r"(\{\\[^{}\n]*\})")  # such as {\an8}, which puts a subtitle at the top
_SPEAKER = re.compile(r"[ \t]*[-\u2010-\u2015][ \t]*(?=\S)")  # a dash before what another person says


def subtitle_document(text: str) -> Document:
    """Return subtitles; the lines of a cue are one text, unless several people speak."""
    return Document(part for cue in re.split(r"(\r?\n[ \t]*\r?\n)", text) for part in _cue(cue))


def _cue(cue: str) -> Iterator[str | TextRun]:
    timing = _TIMING.match(cue)
    if timing is None:
        yield cue
        return
    yield timing[0]
    lines = cue[timing.end() :].splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if number == 0 or _SPEAKER.match(line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield from _speech(lines[start:end])


def _speech(lines: list[str]) -> Iterator[str | TextRun]:
    dash = _SPEAKER.match(lines[0])
    yield dash[0] if dash else ""
    text = "".join(lines)[len(dash[0]) if dash else 0 :]
    line_end = "\r\n" if "\r\n" in text else "\n"
    for part in runs(_items(text)):
        if isinstance(part, TextRun):
            yield SubtitleRun(part.items, lines=len(lines), line_end=line_end)
        else:
            yield part


def _items(text: str) -> Iterator[Item | str]:
    for part in _OVERRIDE.split(text):
        if part.startswith("{\\"):
            yield "alone", part
        else:
            yield from html_items(part)


@dataclass(frozen=True)
class SubtitleRun(TextRun):
    """The text of a subtitle, which has as many lines as before."""

    lines: int = 1
    line_end: str = "\n"

    def filled(self, translation: Translation) -> str:
        words = super().filled(translation).split()
        wanted = sum(map(len, words)) / self.lines
        lines: list[list[str]] = [[]]
        for word in words:
            if len(lines) < self.lines and sum(map(len, lines[-1])) + len(word) / 2 > wanted:
                lines.append([])
            lines[-1].append(word)
        return self.line_end.join(" ".join(line) for line in lines)
