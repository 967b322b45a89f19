"""The kinds of vocabulary: a new one is one file and one line in the table; needs sentencepiece and tokenizers."""

from collections.abc import Callable
from pathlib import Path

from seq2edge.tokenization import Kind, Tokenization
from seq2edge.tokens import SpecialTokens
from seq2edge.vocabularies.bpe import load_bpe
from seq2edge.vocabularies.characters import load_characters
from seq2edge.vocabularies.pieces import load_pieces
from seq2edge.vocabularies.sentencepiece import SentencePieces, load_sentencepiece
from seq2edge.vocabularies.t5 import load_t5
from seq2edge.vocabularies.vocabulary import Vocabulary
from seq2edge.vocabularies.words import load_words

__all__ = ["SentencePieces", "Vocabulary", "load_sentencepiece", "load_vocabulary"]

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
    from seq2edge.vocabularies.tokenizer_json import load_tokenizer_json  # and with it tokenizers, which few need

    return load_tokenizer_json(file, tokens)


def load_vocabulary(rules: Tokenization, tokens: SpecialTokens, file: Path, codes: Path | None) -> Vocabulary:
    """One side's vocabulary, as the rules say."""
    return KINDS[rules.kind](rules, tokens, file, codes)
