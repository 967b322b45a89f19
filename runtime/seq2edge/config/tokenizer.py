"""Define the tokenizer settings and the special tokens of a bundle."""

from dataclasses import dataclass
from typing import Literal

VocabularyKind = Literal["sentencepiece", "characters", "words", "bpe", "pieces", "t5", "tokenizers"]
Split = Literal["spaces", "punctuation", "blanks"]  # see vocabularies/plain.py
WITH_CODES: tuple[VocabularyKind, ...] = ("bpe", "pieces")
MAX_COUNT = 1_000_000  # of source tokens and of sentinels


@dataclass(frozen=True, kw_only=True)
class Moses:
    """The rules of the Moses tokenizer and detokenizer."""

    source_language: str  # selects the rules for abbreviations and quotes
    target_language: str
    dash_splits: bool = True  # ``well-known`` becomes ``well @-@ known``
    escape: bool = True  # ``'`` becomes ``&apos;``, and so on


@dataclass(frozen=True, kw_only=True)
class Tokenization:
    """The vocabulary files (the same name twice if the vocabulary is joint) and how text is tokenized."""

    source: str
    target: str
    kind: VocabularyKind = "sentencepiece"
    source_codes: str = ""  # the merges for "bpe", the SentencePiece model for "pieces"
    target_codes: str = ""
    split: Split = "spaces"  # how "words" and "bpe" split a text into words
    plain_spaces: bool = False  # replace every run of whitespace with one space
    moses: Moses | None = None  # applied after lowercasing, before everything else
    lowercase: bool = False
    source_bos: bool = False  # the source begins with the start token
    source_eos: bool = True  # the source ends with the end token
    silent: tuple[int, ...] = ()  # more ids that "pieces" leaves out of the output, such as language tags
    source_length: int = 0  # sources are padded to this length, and the model reads the padding
    sentinels: int = 0  # number of tokens <extra_id_N> after the pieces of "t5"
    source_prefix: str = ""  # put before every source, such as "translate English to German: "

    def __post_init__(self) -> None:
        if not self.source or not self.target:
            raise ValueError("source and target must each name a vocabulary file")
        if (self.kind in WITH_CODES) != bool(self.source_codes and self.target_codes):
            raise ValueError(
                "source_codes and target_codes are required for the kinds 'bpe' and 'pieces', and for no other"
            )
        for name in ("source_length", "sentinels"):
            if not 0 <= getattr(self, name) <= MAX_COUNT:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be between 0 and {MAX_COUNT:,}")

    @property
    def files(self) -> set[str]:
        """The names of all files that the tokenizer reads."""
        return {self.source, self.target, self.source_codes, self.target_codes} - {""}


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The ids of the padding, start, end and unknown tokens, for source and target."""

    pad: int
    bos: int
    eos: int
    unk: int
    source_unk: int | None = None  # of the source vocabulary, if it differs
