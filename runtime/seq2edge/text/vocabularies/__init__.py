"""The kinds of vocabulary: a new one is one file and one line in the table."""

from collections.abc import Callable
from pathlib import Path

from seq2edge.config.tokenizer import Kind, SpecialTokens, Tokenization
from seq2edge.text.vocabularies.bpe import load_bpe
from seq2edge.text.vocabularies.interface import Vocabulary
from seq2edge.text.vocabularies.plain import load_characters, load_words
from seq2edge.text.vocabularies.sentencepiece import SentencePieceVocabulary, load_pieces, load_sentencepiece, load_t5

__all__ = ["SentencePieceVocabulary", "Vocabulary", "load_sentencepiece", "load_vocabulary"]

KINDS: dict[Kind, Callable[[Tokenization, SpecialTokens, Path, Path | None], Vocabulary]] = {
    "sentencepiece": lambda rules, tokens, file, codes: load_sentencepiece(file),
    "characters": lambda rules, tokens, file, codes: load_characters(file, tokens),
    "words": lambda rules, tokens, file, codes: load_words(file, tokens, rules.split),
    "bpe": lambda rules, tokens, file, codes: load_bpe(file, codes, tokens, rules.split),
    "pieces": lambda rules, tokens, file, codes: load_pieces(file, codes, tokens, rules.silent),
    "t5": lambda rules, tokens, file, codes: load_t5(file, tokens, rules.sentinels),
    "tokenizers": lambda rules, tokens, file, codes: _load_tokenizer_json(file, tokens),
}


def _load_tokenizer_json(file: Path, tokens: SpecialTokens) -> Vocabulary:
    from seq2edge.text.vocabularies.tokenizer_json import load_tokenizer_json  # and with it tokenizers, which few need

    return load_tokenizer_json(file, tokens)


def load_vocabulary(rules: Tokenization, tokens: SpecialTokens, file: Path, codes: Path | None) -> Vocabulary:
    """One side's vocabulary, as the rules say."""
    return KINDS[rules.kind](rules, tokens, file, codes)
