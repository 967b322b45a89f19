import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceNormalizer, SentencePieceProcessor

from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import DataError, UsageError
from seq2edge.text.tokenizer import Tokenizer
from seq2edge_export.training import tokenizer as training
from seq2edge_export.training.config import TokenizerSettings
from seq2edge_export.training.data import Pairs

ENGLISH = ["the cat sees a dog", "a dog hears the bird", "the bird sees the old cat", "good morning, dear tree"] * 5
CHINESE = ["猫看见一只狗。", "狗听见鸟。", "鸟看见老猫。", "早上好，亲爱的树。"] * 5
PAIRS = Pairs(Path("toy.tsv"), ENGLISH, CHINESE)
RULE = SentencePieceNormalizer(rule_name="nmt_nfkc", escape_whitespaces=False, remove_extra_whitespaces=True)


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def both(request: pytest.FixtureRequest) -> Tokenizer:
    """Return a joint tokenizer of either type."""
    options = TokenizerSettings(vocabulary=305, tokenizer=request.param)
    return training.load_tokenizer(training.train_tokenizer([PAIRS], options, seed=1))


REMOVED = [*range(0x01, 0x09), 0x0B, *range(0x0E, 0x20), 0x7F, 0x8F, 0x9F]
SPACES = [0x09, 0x0A, 0x0C, 0x0D, 0x1680, 0x200B, 0x200C, 0x200E, 0x200F, 0x2028, 0x2029, 0xFEFF, 0xFFFD, 0x2581]


def documented(text: str) -> str:
    """Apply the rule in the docstring of the trainer without SentencePiece."""
    text = text.translate({**dict.fromkeys(REMOVED), **dict.fromkeys(SPACES, " ")})
    text = "～".join(unicodedata.normalize("NFKC", part) for part in text.split("～"))
    return re.sub(" +", " ", text).strip(" ")


def round_trip(tokenizer: Tokenizer, text: str) -> str:
    return tokenizer.decode(tokenizer.encode_target([text]))[0]


@settings(deadline=None, max_examples=300)
@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("<s> </s> <pad> <unk> <0x41> ▁ ⁇ \u2585")
@example("\x00 \x85 \ufeff \ufffd \u200b \u200d \U000e0001")
def test_decoding_gives_the_normalized_text(both: Tokenizer, text: str) -> None:
    assert round_trip(both, text) == RULE.normalize(text)


@settings(deadline=None, max_examples=500)
@given(st.characters(exclude_categories=["Cs", "Cn"]))
@example("\u2581")
@example("\x7f")
@example("～")
def test_a_character_is_normalised_as_documented(both: Tokenizer, character: str) -> None:
    assert round_trip(both, f"({character})") == documented(f"({character})")


@settings(deadline=None, max_examples=200)
@given(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FEF)))
def test_chinese_characters_come_back_as_they_are(both: Tokenizer, text: str) -> None:
    assert round_trip(both, text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("猫看见一只狗。", "猫看见一只狗。"),
        ("早上好，树", "早上好,树"),  # NFKC makes a full-width comma an ordinary one
        ("😀👨‍👩‍👧🇩🇪", "😀👨‍👩‍👧🇩🇪"),
        ("a\x01\x1b\x7fb", "ab"),
        ("  a \t b\nc  ", "a b c"),
        ("ﬁ Ａ①½", "fi A11⁄2"),
        ("～", "～"),
        ("a▁b", "a b"),
        ("", ""),
    ],
)
def test_the_documented_normalisation(both: Tokenizer, text: str, expected: str) -> None:
    assert round_trip(both, text) == expected


def test_normalised_text_stays_as_it_is(both: Tokenizer) -> None:
    for text in (*ENGLISH, *CHINESE):
        once = round_trip(both, text)
        assert round_trip(both, once) == once


@pytest.mark.parametrize("text", ["\ud800", "fine until \udcff here"])
def test_a_lone_surrogate_is_an_error_with_its_position(both: Tokenizer, text: str) -> None:
    position = 1 if len(text) == 1 else 12
    with pytest.raises(DataError, match=f"lone surrogate U.D[8C][0F][0F] at character {position},"):
        both.encode(["good", text])
    with pytest.raises(DataError, match="lone surrogate"):
        both.encode_target([text])


def test_incomplete_bytes_and_unknown_ids_can_be_decoded(both: Tokenizer) -> None:
    half = both.target.model.piece_to_id("<0xE4>")
    assert both.decode([[half], [0, 2, 3], [-1, 10_000], []]) == ["\ufffd", "", "", ""]


def test_special_ids_are_those_of_the_config(both: Tokenizer) -> None:
    model, tokens = both.target.model, training.TOKENS
    assert SpecialTokens(pad=model.pad_id(), unk=model.unk_id(), bos=model.bos_id(), eos=model.eos_id()) == tokens
    assert both.encode(["a dog"])[0][-1] == tokens.eos


def test_other_special_ids_work_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "TOKENS", SpecialTokens(pad=3, unk=0, bos=1, eos=2))
    made = training.load_tokenizer(training.train_tokenizer([PAIRS], TokenizerSettings(vocabulary=305), seed=1))
    assert (made.target.model.pad_id(), made.target.model.bos_id()) == (3, 1)
    assert made.encode(["a dog"])[0][-1] == 2
    assert round_trip(made, "a dog 狗") == "a dog 狗"


@pytest.fixture(scope="module")
def separate(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("separate")
    options = TokenizerSettings(vocabulary=280, joint_vocabulary=False)
    for name, content in training.train_tokenizer([PAIRS], options, seed=1).items():
        (folder / name).write_bytes(content)
    return Tokenizer.load(folder / "source.model", folder / "target.model", eos=training.TOKENS.eos)


def test_separate_vocabularies_know_their_own_side(separate: Tokenizer) -> None:
    english, chinese = "the bird sees", "鸟看见"
    assert len(separate.encode([english])[0]) < len(separate.encode_target([english])[0])
    assert len(separate.encode_target([chinese])[0]) < len(separate.encode([chinese])[0])
    assert round_trip(separate, english) == english
    assert round_trip(separate, chinese) == chinese


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_the_same_seed_trains_the_same_vocabulary(kind: str) -> None:
    options = TokenizerSettings(vocabulary=305, tokenizer=kind)  # type: ignore[arg-type]
    first, second = (training.train_tokenizer([PAIRS], options, seed=1) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_every_digit_is_a_piece_if_digits_are_split(kind: str) -> None:
    pairs = Pairs(Path("toy.tsv"), ["the cat of 1987", "a dog of 1987"] * 10, CHINESE)
    pieces = {}
    for split in (False, True):
        options = TokenizerSettings(vocabulary=295, tokenizer=kind, split_digits=split)  # type: ignore[arg-type]
        (model,) = training.train_tokenizer([pairs], options, seed=1).values()
        pieces[split] = SentencePieceProcessor(model_proto=model).encode("1987", out_type=str)
    assert pieces[True] == ["▁", "1", "9", "8", "7"]
    assert pieces[False] != pieces[True]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_vocabulary_too_large_for_the_text_is_refused_with_the_maximum(kind: str) -> None:
    with pytest.raises(UsageError, match=r"--vocabulary 8000 is too large: this text has at most \d+ pieces") as caught:
        training.train_tokenizer([PAIRS], TokenizerSettings(vocabulary=8000, tokenizer=kind), seed=1)
    most = int(str(caught.value).split("at most ")[1].split()[0])
    assert training.train_tokenizer([PAIRS], TokenizerSettings(vocabulary=most, tokenizer=kind), seed=1)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_vocabulary_too_small_for_the_characters_is_refused_with_the_minimum(kind: str) -> None:
    with pytest.raises(UsageError, match="--vocabulary 261 is too small") as caught:
        training.train_tokenizer([PAIRS], TokenizerSettings(vocabulary=261, tokenizer=kind), seed=1)
    least = int(str(caught.value).split("of this text are ")[1].split()[0])
    assert training.train_tokenizer([PAIRS], TokenizerSettings(vocabulary=least, tokenizer=kind), seed=1)


def test_text_without_a_visible_character_is_refused() -> None:
    nothing = Pairs(Path("x"), ["\x01"], ["\x02"])
    with pytest.raises(DataError, match="SentencePiece cannot train 300 pieces on this text"):
        training.train_tokenizer([nothing], TokenizerSettings(vocabulary=300), seed=1)


def test_an_invalid_vocabulary_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "broken.model").write_bytes(b"not a model")
    for name, problem in {
        "broken.model": "is not a valid SentencePiece model",
        "missing.model": "cannot be read",
    }.items():
        with pytest.raises(DataError, match=f"{name} {problem}"):
            Tokenizer.load(tmp_path / name, tmp_path / name, eos=3)
