"""How a bundle's text becomes ids: the closed settings that its manifest holds.

The ids that mean something to the search.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["sentencepiece", "characters", "words", "bpe", "pieces", "t5", "tokenizers"]
MOST = 1_000_000  # tokens of a source, or sentinels
WITH_CODES: tuple[Kind, ...] = ("bpe", "pieces")
Split = Literal["spaces", "punctuation", "blanks"]


@dataclass(frozen=True, kw_only=True)
class Moses:
    """How the tokenizer of Moses cuts a text into words and puts it together again; see ``moses.py``."""

    source_language: str  # of the rules for abbreviations and quotes
    target_language: str
    dash_splits: bool = True  # ``well-known`` becomes ``well @-@ known``
    escape: bool = True  # ``'`` becomes ``&apos;``, and so on


@dataclass(frozen=True, kw_only=True)
class Tokenization:
    """The vocabulary files, one name twice where the vocabulary is joint, and what is done around them."""

    source: str
    target: str
    kind: Kind = "sentencepiece"
    source_codes: str = ""  # the merges of "bpe", the SentencePiece model of "pieces"
    target_codes: str = ""
    split: Split = "spaces"  # what "words" and "bpe" take for a word; see vocabularies/splitting.py
    plain_spaces: bool = False  # every run of white space counts as one space
    moses: Moses | None = None  # before all else but the lower case
    lowercase: bool = False
    source_bos: bool = False  # the source begins with the start token
    source_eos: bool = True  # the source ends with the end token
    silent: tuple[int, ...] = ()  # ids that "pieces" never writes, besides pad, bos and eos: marks, tags of languages
    source_length: int = 0  # sources are filled up with the padding token to this length, and it counts as text
    sentinels: int = 0  # tokens <extra_id_N> behind the pieces of "t5"
    source_prefix: str = ""  # text before every source, such as "translate English to German: "

    def __post_init__(self) -> None:
        if not self.source or not self.target:
            raise ValueError("source and target must each name a vocabulary file")
        if (self.kind in WITH_CODES) != bool(self.source_codes and self.target_codes):
            raise ValueError("source_codes and target_codes go with the kind 'bpe' or 'pieces', and these with them")
        for name in ("source_length", "sentinels"):
            if not 0 <= getattr(self, name) <= MOST:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be between 0 and {MOST:,}")

    @property
    def files(self) -> set[str]:
        """Every file that the tokenizer reads."""
        return {self.source, self.target, self.source_codes, self.target_codes} - {""}


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Ids of padding, start, end and unknown; they belong to a model, not to the code."""

    pad: int
    bos: int
    eos: int
    unk: int
