"""Load a vocabulary by its kind; a new kind is a new file and a new line in the table."""

from collections.abc import Callable
from pathlib import Path

from seq2edge.config.tokenizer import SpecialTokens, Tokenization, VocabularyKind
from seq2edge.errors import imports_of_extras
from seq2edge.text.vocabularies.bpe import load_bpe
from seq2edge.text.vocabularies.interface import Vocabulary
from seq2edge.text.vocabularies.plain import load_characters, load_words
from seq2edge.text.vocabularies.sentencepiece import SentencePieceVocabulary, load_pieces, load_sentencepiece, load_t5

__all__ = ["SentencePieceVocabulary", "Vocabulary", "load_sentencepiece", "load_vocabulary"]

KINDS: dict[VocabularyKind, Callable[[Tokenization, SpecialTokens, Path, Path | None], Vocabulary]] = {
    "sentencepiece": lambda rules, tokens, file, codes: load_sentencepiece(file),
    "characters": lambda rules, tokens, file, codes: load_characters(file, tokens),
    "words": lambda rules, tokens, file, codes: load_words(file, tokens, rules.split),
    "bpe": lambda rules, tokens, file, codes: load_bpe(file, codes, tokens, rules.split),
    "pieces": lambda rules, tokens, file, codes: load_pieces(file, codes, tokens, rules.silent),
    "t5": lambda rules, tokens, file, codes: load_t5(file, tokens, rules.sentinels),
    "tokenizers": lambda rules, tokens, file, codes: _load_tokenizer_json(file, tokens),
}


def load_vocabulary(rules: Tokenization, tokens: SpecialTokens, file: Path, codes: Path | None) -> Vocabulary:
    """Load the source or target vocabulary."""
    return KINDS[rules.kind](rules, tokens, file, codes)


def _load_tokenizer_json(file: Path, tokens: SpecialTokens) -> Vocabulary:
    # Here, because it imports tokenizers, which few models need.
    with imports_of_extras():
        from seq2edge.text.vocabularies.tokenizer_json import load_tokenizer_json

    return load_tokenizer_json(file, tokens)
