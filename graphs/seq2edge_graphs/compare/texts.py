"""The sentences to compare on, and their references; needs nothing."""

from pathlib import Path

from seq2edge.errors import DataError, UsageError
from seq2edge.lines import read_lines


def read_texts(source: Path | None, reference: Path | None) -> tuple[list[str] | None, list[str] | None]:
    """Lines of both files; lines that are empty on the source side are left out."""
    if source is None:
        if reference is not None:
            raise UsageError("--reference needs --input: the built-in sentences have no references")
        return None, None
    texts = list(read_lines(source))
    references = list(read_lines(reference)) if reference is not None else None
    if references is not None and len(references) != len(texts):
        raise DataError(f"{source} has {len(texts)} lines, but {reference} has {len(references)}")
    kept = [place for place, text in enumerate(texts) if text.strip()]
    if not kept:
        raise DataError(f"{source} holds no sentence")
    return [texts[place] for place in kept], [references[place] for place in kept] if references is not None else None
