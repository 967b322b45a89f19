"""How text is treated before and after the search."""

from dataclasses import dataclass
from typing import Literal

from seq2edge.config.schema import setting
from seq2edge.errors import UsageError

Long = Literal["split", "error", "truncate"]


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """What is not the model's business: with ``GenerationOptions``, all that a translation can be asked for."""

    long: Long = setting(
        "split", "text with more tokens than the model reads: split at sentence ends, an error, or cut"
    )
    source_lang: str = setting("", "language of the texts, as a model for many languages names it")
    target_lang: str = setting("", "language to translate into, as a model for many languages names it")
    source_prefix: str | None = setting(
        None, "text to put before every text, such as 'translate English to German: '; left out, as the bundle says"
    )
    attention: str = setting(
        "", "where each token looked: 'all' heads on average, or some of them as in '2' (a layer) or '1.3,2.5' (heads)"
    )

    def __post_init__(self) -> None:
        if self.long not in ("split", "error", "truncate"):
            raise ValueError(f"long is {self.long!r}, but must be 'split', 'error' or 'truncate'")
        parse_heads(self.attention)


def parse_heads(text: str) -> list[tuple[int, int | None]]:
    """Layers and heads, counted from 1; no head is all heads of the layer, and nothing at all is all of all."""
    if text in ("", "all"):
        return []
    try:
        return [_head(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"attention is {text!r}, but must be 'all', or layers and heads as in '1.3,2.5'") from None


def check_heads(text: str, *, layers: int, heads: int) -> None:
    """Refuse layers and heads that a decoder of so many does not have."""
    if any(layer > layers or (head or 1) > heads for layer, head in parse_heads(text)):
        raise UsageError(f"attention is {text!r}, but the decoder has {layers} layers of {heads} heads")


def _head(text: str) -> tuple[int, int | None]:
    layer, _, head = text.strip().partition(".")
    numbers = int(layer), int(head) if head else None
    if numbers[0] < 1 or (numbers[1] is not None and numbers[1] < 1):
        raise ValueError
    return numbers
