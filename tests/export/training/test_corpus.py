from pathlib import Path

import pytest

from seq2edge.errors import DataError
from seq2edge.text.tokenizer import Tokenizer
from seq2edge.text.vocabularies import SentencePieceVocabulary
from seq2edge_export.training.config import TokenizerSettings
from seq2edge_export.training.data import Pairs, encode_pairs
from seq2edge_export.training.tokenizer import load_tokenizer, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    pairs = Pairs(Path("x"), ["one two three", "two three four"] * 20, ["eno owt eerht", "owt eerht ruof"] * 20)
    return load_tokenizer(train_tokenizer([pairs], TokenizerSettings(vocabulary=275), seed=1))


def test_pairs_that_are_too_long_are_omitted_and_counted(tokenizer: Tokenizer) -> None:
    messages: list[str] = []
    pairs = Pairs(Path("p.tsv"), ["one", "two " * 30, "two", "three"], ["eno", "owt", "owt " * 30, "eerht"])
    corpus = encode_pairs(pairs, tokenizer, max_tokens=20, report=messages.append)
    assert corpus.targets == ["eno", "eerht"]
    assert tokenizer.decode([target for _, target in corpus.encoded]) == ["eno", "eerht"]
    assert messages == ["p.tsv: 2 pairs omitted (2 longer than 20 tokens)"]


def test_a_sentence_of_the_maximum_length_is_kept(tokenizer: Tokenizer) -> None:
    pairs, messages = Pairs(Path("p.tsv"), ["one two"], ["eno owt"]), list[str]()
    longest = max(len(ids) for ids in (*tokenizer.encode(pairs.sources), *tokenizer.encode_target(pairs.targets)))
    assert len(encode_pairs(pairs, tokenizer, max_tokens=longest, report=messages.append)) == 1
    assert not messages
    with pytest.raises(DataError, match=f"1 longer than {longest - 1} tokens.*increase --max-positions"):
        encode_pairs(pairs, tokenizer, max_tokens=longest - 1, report=messages.append)


def test_a_pair_with_only_control_characters_is_omitted(tokenizer: Tokenizer) -> None:
    messages: list[str] = []
    pairs = Pairs(Path("p.tsv"), ["one", "\x01\x02"], ["eno", "owt"])
    assert len(encode_pairs(pairs, tokenizer, max_tokens=20, report=messages.append)) == 1
    assert messages == ["p.tsv: 1 pairs omitted (1 with a side without visible characters)"]


def test_vocabularies_can_be_used_before_they_are_files(tokenizer: Tokenizer) -> None:
    assert isinstance(tokenizer.source, SentencePieceVocabulary)
    assert tokenizer.source is tokenizer.target
