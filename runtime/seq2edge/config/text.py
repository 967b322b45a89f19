"""Define the options for text, before and after the search."""

from dataclasses import dataclass
from typing import Any, Literal

from seq2edge.config.schema import setting
from seq2edge.errors import UsageError

LongText = Literal["split", "error", "truncate"]
Split = Literal["auto", "sentences", "none"]
READS_PARAGRAPHS = ("bart", "pegasus", "t5")  # families whose models are trained on more than single sentences


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The options of a call that do not concern the search; the others are ``GenerationOptions``."""

    split: Split = setting(
        "auto", "translate each sentence of a text by itself, or the whole text at once; auto: as the bundle says"
    )
    long: LongText = setting(
        "split",
        "what has more tokens than the model takes: split it into smaller parts, raise an error, or truncate it",
    )
    source_lang: str = setting("", "language of the texts, as a multilingual model names it")
    target_lang: str = setting("", "language to translate into, as a multilingual model names it")
    source_prefix: str | None = setting(
        None, "text to put before every text, such as 'translate English to German: '; default: that of the bundle"
    )
    attention: str = setting(
        "", "return cross-attention: the mean of 'all' heads, or of some, as in '2' (a layer) or '1.3,2.5' (heads)"
    )

    def __post_init__(self) -> None:
        if self.split not in ("auto", "sentences", "none"):
            raise ValueError(f"split is {self.split!r}, but must be 'auto', 'sentences' or 'none'")
        if self.long not in ("split", "error", "truncate"):
            raise ValueError(f"long is {self.long!r}, but must be 'split', 'error' or 'truncate'")
        parse_heads(self.attention)


def resolve_split(split: object, family: object) -> Any:
    """Return what ``auto`` means for a model of this family; any other value is returned as it is."""
    if split != "auto":
        return split
    return "none" if family in READS_PARAGRAPHS else "sentences"


def parse_heads(text: str) -> list[tuple[int, int | None]]:
    """Return layers and heads, counted from 1; a head of None is all heads of the layer, an empty list all layers."""
    if text in ("", "all"):
        return []
    try:
        return [_parse_head(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"attention is {text!r}, but must be 'all', or layers and heads as in '1.3,2.5'") from None


def check_heads(text: str, *, layers: int, heads: int) -> None:
    """Check that the decoder has these layers and heads."""
    if any(layer > layers or (head or 1) > heads for layer, head in parse_heads(text)):
        raise UsageError(f"attention is {text!r}, but the decoder has {layers} layers of {heads} heads")


def _parse_head(text: str) -> tuple[int, int | None]:
    layer_text, _, head_text = text.strip().partition(".")
    layer, head = int(layer_text), int(head_text) if head_text else None
    if layer < 1 or (head is not None and head < 1):
        raise ValueError
    return layer, head
