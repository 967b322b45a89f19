"""Texts as the model can read them: whole, split or cut; needs sentencepiece and tokenizers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seq2edge.errors import TextTooLongError
from seq2edge.fitting import fit
from seq2edge.text_options import Long
from seq2edge.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Part:
    """A text, or as much of it as the model reads at once."""

    number: int  # of the text
    place: int = 0  # among the parts of the text
    text: str
    ids: list[int]
    unknown: int  # characters
    truncated: bool = False


def make_parts(texts: Sequence[str], tokenizer: Tokenizer, *, longest: int, long: Long) -> list[Part]:
    """The parts of all texts in order; one that says nothing has none."""
    encoded = tokenizer.encode_or_nothing(texts)
    parts: list[Part] = []
    for number, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
        if len(ids) > longest and long == "split":
            parts += _split(number, text, tokenizer, longest)
        elif len(ids) > longest and long == "error":
            raise TextTooLongError(number, len(ids), longest, advice='split it (--long split, or long="split")')
        elif ids:
            parts.append(_whole(text, ids, tokenizer, longest, number=number))
    return parts


def _whole(text: str, ids: list[int], tokenizer: Tokenizer, longest: int, *, number: int, place: int = 0) -> Part:
    cut = len(ids) > longest
    kept = tokenizer.frame.cut(ids, longest) if cut else ids
    unknown = tokenizer.unknown_characters(text, kept)
    return Part(number=number, place=place, text=text, ids=kept, unknown=unknown, truncated=cut)


def _split(number: int, text: str, tokenizer: Tokenizer, longest: int) -> Iterator[Part]:
    tag, rest = tokenizer.split_tag(text)
    pieces = [tag + piece for piece in fit(rest, lambda piece: len(tokenizer.encode([tag + piece])[0]), longest)]
    encoded = zip(pieces, tokenizer.encode_or_nothing(pieces), strict=True)
    for place, (piece, ids) in enumerate((piece, ids) for piece, ids in encoded if ids):
        yield _whole(piece, ids, tokenizer, longest, number=number, place=place)
