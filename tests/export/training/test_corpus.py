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
    return load_tokenizer(train_tokenizer(pairs, TokenizerSettings(vocabulary=275), seed=1))


def test_pairs_that_are_too_long_are_left_out_and_counted(tokenizer: Tokenizer) -> None:
    said: list[str] = []
    pairs = Pairs(Path("p.tsv"), ["one", "two " * 30, "two", "three"], ["eno", "owt", "owt " * 30, "eerht"])
    corpus = encode_pairs(pairs, tokenizer, longest=20, say=said.append)
    assert corpus.targets == ["eno", "eerht"]
    assert tokenizer.decode([target for _, target in corpus.encoded]) == ["eno", "eerht"]
    assert said == ["p.tsv: 2 pairs left out (2 longer than 20 tokens)"]


def test_a_sentence_of_exactly_the_most_tokens_stays(tokenizer: Tokenizer) -> None:
    pairs, said = Pairs(Path("p.tsv"), ["one two"], ["eno owt"]), list[str]()
    longest = max(len(ids) for ids in (*tokenizer.encode(pairs.sources), *tokenizer.encode_target(pairs.targets)))
    assert len(encode_pairs(pairs, tokenizer, longest=longest, say=said.append)) == 1
    assert not said
    with pytest.raises(DataError, match=f"1 longer than {longest - 1} tokens.*raise --max-positions"):
        encode_pairs(pairs, tokenizer, longest=longest - 1, say=said.append)


def test_a_side_of_nothing_but_control_characters_is_left_out(tokenizer: Tokenizer) -> None:
    said: list[str] = []
    pairs = Pairs(Path("p.tsv"), ["one", "\x01\x02"], ["eno", "owt"])
    assert len(encode_pairs(pairs, tokenizer, longest=20, say=said.append)) == 1
    assert said == ["p.tsv: 1 pairs left out (1 with a side that holds no visible character)"]


def test_vocabularies_can_be_used_before_they_are_files(tokenizer: Tokenizer) -> None:
    assert isinstance(tokenizer.source, SentencePieceVocabulary)
    assert tokenizer.source is tokenizer.target
