"""Documents with markup: what of them is translated, and where the markup goes in the translation."""

from collections.abc import Callable

from seq2edge.serve.documents.hypertext import html_document
from seq2edge.serve.documents.markdown import markdown_document
from seq2edge.serve.documents.runs import Document, TextRun
from seq2edge.serve.documents.subtitles import subtitle_document

__all__ = ["READERS", "Document", "html_document", "markdown_document", "subtitle_document", "text_document"]


def text_document(text: str) -> Document:
    """Return a plain text, whose line ends the translator keeps."""
    visible = text.strip()
    start = text.find(visible)
    return Document([text[:start], TextRun([("text", visible)]), text[start + len(visible) :]] if visible else [text])


READERS: dict[str, Callable[[str], Document]] = {
    ".txt": text_document,
    ".html": html_document,
    ".htm": html_document,
    ".md": markdown_document,
    ".markdown": markdown_document,
    ".srt": subtitle_document,
}
