"""A translation as a line of output, in the formats that ``seq2edge translate`` knows; needs nothing.

text   the translation; with alternatives, lines of ``number ||| translation ||| score`` as Moses writes them, and with
       attention the alignment behind another ``|||``
tsv    translation, score, notes, the alignment if asked for, and then each alternative with its score
jsonl  all there is to know, as JSON
"""

import json
from collections.abc import Callable, Iterator
from typing import Literal

from seq2edge.translation import Translation

Format = Literal["text", "tsv", "jsonl"]
Formatter = Callable[[int, Translation], str]  # number of the text, counted from 0


def as_text(number: int, translation: Translation) -> str:
    ranked = (translation, *translation.alternatives)
    return "\n".join(" ||| ".join(_columns(number, one, ranked=len(ranked) > 1)) for one in ranked)


def as_tsv(number: int, translation: Translation) -> str:
    cells = [_one_line(translation.text), f"{translation.score:.4f}", "; ".join(translation.notes)]
    if translation.attention is not None:
        cells.append(translation.attention.moses)
    for one in translation.alternatives:
        cells += [_one_line(one.text), f"{one.score:.4f}"]
    return "\t".join(cells)


def as_jsonl(number: int, translation: Translation) -> str:
    return json.dumps(translation.as_dict(), ensure_ascii=False)


FORMATS: dict[Format, Formatter] = {"text": as_text, "tsv": as_tsv, "jsonl": as_jsonl}


def _columns(number: int, translation: Translation, *, ranked: bool) -> Iterator[str]:
    if ranked:
        yield str(number)
    yield _one_line(translation.text)
    if ranked:
        yield f"{translation.score:.4f}"
    if translation.attention is not None:
        yield translation.attention.moses


def _one_line(text: str) -> str:
    """Without what would end a line or a cell."""
    return " ".join(text.replace("\t", " ").splitlines())
