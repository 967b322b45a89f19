"""Read HTML: code, scripts, attributes and what is marked so are not translated."""

import html
import re
from collections.abc import Iterator

from seq2edge.serve.documents.runs import Document, Item, runs

_IN_SENTENCES = re.compile(  # elements at which a sentence does not end
    "a|abbr|b|bdi|bdo|big|cite|data|del|dfn|em|font|i|ins|label|mark|q|s|small|span|strike|strong|sub|sup|time|tt|u"
)
MOST_UNCLOSED = 50
_ALONE = ("code", "kbd", "samp", "var", "img", "wbr")  # in a sentence, but nothing to translate
_COPIED = re.compile("code|kbd|math|pre|samp|script|style|svg|template|textarea|var")  # and not translated
_FLAT = ("p", "script", "style", "textarea")  # have none of the same name inside
_NAME = re.compile(r"</?([A-Za-z][^\s/>]*)")
_TAG = re.compile(r"<(?:[^>\"']|\"[^\"]*\"|'[^']*')*+>")
_TAG_START = re.compile(r"</?[A-Za-z!?]")
_UNTRANSLATED = re.compile(
    r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*(?:\"[^\"]*|'[^']*)?\bnotranslate\b", re.IGNORECASE
)


def html_document(text: str) -> Document:
    """Return an HTML document or fragment."""
    return Document(runs(html_items(text), _escape))


def _escape(text: str) -> str:
    return html.escape(text, quote=False)


def html_items(text: str) -> Iterator[Item | str]:
    """Return the text and the marks of sentences, and, as strings, what is between them."""
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
                yield tag_item(text[start:place], tag[0])


def _copied_end(text: str, tag: re.Match[str], unclosed: set[str]) -> int:
    """Return where an element ends that is not translated; of others, where their tag ends.

    ``unclosed`` remembers the elements that do not end: the text is searched only once for each, and not for many.
    """
    name = _name(tag[0])
    is_copied = _COPIED.fullmatch(name) is not None or _UNTRANSLATED.search(tag[0]) is not None
    is_searched = name in unclosed or len(unclosed) > MOST_UNCLOSED
    if not is_copied or is_searched or tag[0].startswith("</") or tag[0].endswith("/>"):
        return tag.end()
    depth = 1
    for inner in re.compile(rf"<(/?){re.escape(name)}(?![^\s/>])[^>]*+>", re.IGNORECASE).finditer(text, tag.end()):
        depth += -1 if inner[1] else int(name not in _FLAT and not inner[0].endswith("/>"))
        if not depth:
            return inner.end()
    unclosed.add(name)
    return tag.end()


def tag_item(whole: str, tag: str) -> Item | str:
    """Return an element that is copied, or a tag, as a mark of a sentence, or as a string if a sentence ends there."""
    name = _name(tag)
    in_sentence = _IN_SENTENCES.fullmatch(name) is not None
    if name in _ALONE or (in_sentence and len(whole) > len(tag)):
        return "alone", whole
    if not in_sentence:
        return whole
    return ("close" if tag.startswith("</") else "open"), tag


def _name(tag: str) -> str:
    match = _NAME.match(tag)
    return match[1].lower() if match else ""
