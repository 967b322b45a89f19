"""Format a translation as a line of output, for ``seq2edge translate --format``.

text   the translation; with alternatives, lines of ``number ||| translation ||| score`` as in Moses, and with
       alignment one more ``|||`` and the alignment
tsv    translation, score, notes, the alignment if requested, and then each alternative with its score
jsonl  everything, as JSON

A blank text has neither alternatives nor an alignment, but all columns.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from seq2edge.results import Translation

if TYPE_CHECKING:
    from seq2edge.options import CallOptions

Format = Literal["text", "tsv", "jsonl"]


@dataclass(frozen=True, kw_only=True)
class OutputColumns:
    """What to write besides the translation."""

    translations: int = 1  # per text
    alignment: bool = False


Formatter = Callable[[int, Translation, OutputColumns], str]  # the first argument is the index of the text


def columns_of(options: "CallOptions") -> OutputColumns:
    return OutputColumns(translations=options.generation.num_return_sequences, alignment=bool(options.text.attention))


def as_text(number: int, translation: Translation, columns: OutputColumns) -> str:
    ranked = (translation, *translation.alternatives)
    return "\n".join(" ||| ".join(_cells(number, one, columns)) for one in ranked)


def as_tsv(number: int, translation: Translation, columns: OutputColumns) -> str:
    cells = [_one_line(translation.text), f"{translation.score:.4f}", "; ".join(translation.notes)]
    if columns.alignment:
        cells.append(_moses(translation))
    for one in translation.alternatives:
        cells += [_one_line(one.text), f"{one.score:.4f}"]
    missing = columns.translations - 1 - len(translation.alternatives)
    return "\t".join(cells + ["", ""] * missing)


def as_jsonl(number: int, translation: Translation, columns: OutputColumns) -> str:
    content = translation.as_dict()
    if columns.alignment:
        content = {**content, "source_pieces": (), "target_pieces": (), "alignment": "", **content}
    if columns.translations > 1:
        content.setdefault("alternatives", ())
    return json.dumps(content, ensure_ascii=False)


FORMATS: dict[Format, Formatter] = {"text": as_text, "tsv": as_tsv, "jsonl": as_jsonl}


def _cells(number: int, translation: Translation, columns: OutputColumns) -> Iterator[str]:
    if columns.translations > 1:
        yield str(number)
    yield _one_line(translation.text)
    if columns.translations > 1:
        yield f"{translation.score:.4f}"
    if columns.alignment:
        yield _moses(translation)


def _moses(translation: Translation) -> str:
    return "" if translation.attention is None else translation.attention.moses


def _one_line(text: str) -> str:
    """Replace line breaks and tabs, which would end a line or a cell."""
    return " ".join(text.replace("\t", " ").splitlines())
