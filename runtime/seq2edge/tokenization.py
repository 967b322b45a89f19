"""How a bundle's text becomes ids: the closed settings that its manifest holds; needs nothing."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["sentencepiece", "characters", "words", "bpe", "pieces", "tokenizers"]
WITH_CODES: tuple[Kind, ...] = ("bpe", "pieces")
Split = Literal["spaces", "punctuation"]


@dataclass(frozen=True, kw_only=True)
class Tokenization:
    """The vocabulary files, one name twice where the vocabulary is joint, and what is done around them."""

    source: str
    target: str
    kind: Kind = "sentencepiece"
    source_codes: str = ""  # the merges of "bpe", the SentencePiece model of "pieces"
    target_codes: str = ""
    split: Split = "spaces"  # what "words" and "bpe" take for a word; see vocabularies/splitting.py
    lowercase: bool = False
    source_bos: bool = False  # the source begins with the start token
    source_eos: bool = True  # the source ends with the end token
    silent: tuple[int, ...] = ()  # ids that "pieces" never writes, besides pad, bos and eos: marks, tags of languages
    source_length: int = 0  # sources are filled up with the padding token to this length, and it counts as text

    def __post_init__(self) -> None:
        if (self.kind in WITH_CODES) != bool(self.source_codes and self.target_codes):
            raise ValueError("source_codes and target_codes go with the kind 'bpe' or 'pieces', and these with them")
        if self.source_length < 0:
            raise ValueError(f"source_length is {self.source_length}, but must be at least 0")

    @property
    def files(self) -> set[str]:
        """Every file that the tokenizer reads."""
        return {self.source, self.target, self.source_codes, self.target_codes} - {""}
