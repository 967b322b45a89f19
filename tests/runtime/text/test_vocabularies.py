"""Every kind of vocabulary encodes with the ids of its file, and decodes to the same text."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor

from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import DataError
from seq2edge.text.tokenizer import Tokenizer, load_tokenizer

TOKENS = SpecialTokens(pad=0, bos=1, eos=2, unk=3)
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
CODES = "#version: 0.2\nl o\nlo w</w>\ne r</w>\nlo w\nн о</w>\n"
PIECES = [*SPECIAL, "low", "low@@", "er", "lo@@", "w@@", "e@@", "s", "t", "s@@", "но", "."]


def tokenizer(folder: Path, tokens: list[str], **settings: object) -> Tokenizer:
    (folder / "vocabulary").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    rules = Tokenization(source="vocabulary", target="vocabulary", **settings)  # type: ignore[arg-type]
    return load_tokenizer(rules, TOKENS, {name: folder / name for name in rules.files})


def test_every_character_is_a_token_and_other_characters_are_unknown(tmp_path: Path) -> None:
    made = tokenizer(tmp_path, [*SPECIAL, "a", "é", " ", "水"], kind="characters")
    assert made.encode(["a é水x"]) == [[4, 6, 5, 7, 3, 2]]
    assert made.decode([[1, 4, 6, 5, 7, 2, 0, 99, -1]]) == ["a é水"]


def test_words_are_split_at_spaces_or_at_punctuation(tmp_path: Path) -> None:
    words = [*SPECIAL, "Ein", "Hund", "läuft", ".", ",", "Hund,", "(", ")"]
    spaces = tokenizer(tmp_path, words, kind="words")
    assert spaces.encode(["Ein Hund, läuft."]) == [[4, 9, 3, 2]]
    assert spaces.decode([[4, 9, 7]]) == ["Ein Hund, ."]
    apart = tokenizer(tmp_path, words, kind="words", split="punctuation")
    assert apart.encode([" Ein  Hund, (läuft)."]) == [[4, 5, 8, 10, 6, 11, 7, 2]]
    assert apart.decode(apart.encode([" Ein  Hund, (läuft)."])) == ["Ein Hund, (läuft)."]


def test_special_tokens_in_a_text_are_unknown(tmp_path: Path) -> None:
    made = tokenizer(tmp_path, [*SPECIAL, "a"], kind="words")
    assert made.encode(["a </s> <pad> a"]) == [[4, 3, 3, 4, 2]]


def test_special_tokens_are_added_to_the_source(tmp_path: Path) -> None:
    frame = {"source_bos": True, "source_eos": False, "source_length": 5, "lowercase": True}
    made = tokenizer(tmp_path, [*SPECIAL, "a", "b"], kind="characters", **frame)
    assert made.encode(["aB", "bbbbbb"]) == [[1, 4, 5, 0, 0], [1, 5, 5, 5, 5, 5, 5]]
    assert made.encode_target(["aB"]) == [[4, 5, 2]]


def reference_bpe(word: str, merges: list[tuple[str, str]]) -> list[str]:
    """Byte-pair encoding as in its paper: the first merge at all positions, until none is left."""
    pieces = [*word[:-1], word[-1] + "</w>"]
    while True:
        pairs = [pair for pair in merges if pair in set(pairwise(pieces))]
        if not pairs:
            return [p.removesuffix("</w>") if p.endswith("</w>") else p + "@@" for p in pieces]
        merged: list[str] = []
        for piece in pieces:
            if merged and (merged[-1], piece) == pairs[0]:
                merged[-1] += piece
            else:
                merged.append(piece)
        pieces = merged


def test_byte_pairs_are_merged_in_the_order_of_the_codes(tmp_path: Path) -> None:
    (tmp_path / "codes").write_text(CODES, encoding="utf-8")
    made = tokenizer(tmp_path, PIECES, kind="bpe", source_codes="codes", target_codes="codes")
    merges = [tuple(line.split()) for line in CODES.splitlines()[1:]]
    for word in ("low", "lower", "lowest", "slow", "но", "lo", "тоно", "wow", "🙂low"):
        pieces = reference_bpe(word, merges)  # type: ignore[arg-type]
        expected = [PIECES.index(piece) if piece in PIECES else 3 for piece in pieces]
        assert made.encode([word]) == [[*expected, 2]], word
    assert made.decode(made.encode(["lower low но slow ."])) == ["lower low но slow ."]


def test_codes_of_fastbpe_give_the_same_ids(tmp_path: Path) -> None:
    lines = [f"{line} 7" for line in CODES.splitlines()[1:]]
    (tmp_path / "codes").write_text(CODES, encoding="utf-8")
    (tmp_path / "fast").write_text("\n".join(lines) + "\n", encoding="utf-8")
    first, second = (
        tokenizer(tmp_path, PIECES, kind="bpe", source_codes=name, target_codes=name) for name in ("codes", "fast")
    )
    assert first.encode(["slow lowest"]) == second.encode(["slow lowest"])


@pytest.mark.parametrize("content", ["l o\nlo </w>\n", "nonsense\n", "\n".join(PIECES)])
def test_codes_of_another_format_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "codes").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=r"codes does not contain BPE codes of subword-nmt 0\.2"):
        tokenizer(tmp_path, PIECES, kind="bpe", source_codes="codes", target_codes="codes")


def pieces_tokenizer(folder: Path) -> Tokenizer:
    """Use the pieces of the default model in another order, without one piece and with another one added."""
    model = SentencePieceProcessor(model_file=str(DEFAULT_BUNDLE / "tokenizer.model"))
    pieces = [model.id_to_piece(number) for number in range(4, model.get_piece_size())]
    shutil.copy(DEFAULT_BUNDLE / "tokenizer.model", folder / "spm")
    kept = [piece for piece in reversed(pieces) if piece != "▁house"]
    return tokenizer(folder, [*SPECIAL, *kept, "▁anderswo"], kind="pieces", source_codes="spm", target_codes="spm")


def test_sentencepiece_splits_and_the_vocabulary_has_the_ids(tmp_path: Path) -> None:
    made = pieces_tokenizer(tmp_path)
    lines = (tmp_path / "vocabulary").read_text(encoding="utf-8").split("\n")
    model = SentencePieceProcessor(model_file=str(tmp_path / "spm"))
    text = "The house is old , but we like it ."
    cut = model.encode(text, out_type=str)
    assert "▁house" in cut
    assert made.encode([text]) == [[*(lines.index(p) if p in lines else 3 for p in cut), 2]]
    known = text.replace("house ", "")
    assert made.decode(made.encode([known])) == [known]
    assert made.decode([[lines.index("▁anderswo"), lines.index("▁is")]]) == ["anderswo is"]
    assert made.target.get_piece_size() == lines.index("▁anderswo") + 1


def test_bytes_become_characters_and_special_tokens_are_left_out(tmp_path: Path) -> None:
    made = pieces_tokenizer(tmp_path)  # the default model has pieces for bytes
    assert made.decode(made.encode(["we 🫠水 it"])) == ["we 🫠水 it"]
    first, *_, last = made.encode(["we 🫠"])[0][:-1]
    assert made.decode([[1, first, last, first, 2, 0]]) == ["we\ufffd we"]


def test_a_special_token_of_the_target_may_be_a_piece_of_the_source(tmp_path: Path) -> None:
    shutil.copy(DEFAULT_BUNDLE / "tokenizer.model", tmp_path / "spm")
    (tmp_path / "s").write_text("<blank>\n▁we\n▁like\n<unk>\n▁it\n", encoding="utf-8")  # ids 1 and 2 are bos and eos
    (tmp_path / "t").write_text("<blank>\n<s>\n</s>\n<unk>\n▁wir\n", encoding="utf-8")
    rules = Tokenization(
        source="s", target="t", kind="pieces", source_codes="spm", target_codes="spm", source_eos=False
    )
    made = load_tokenizer(rules, TOKENS, {name: tmp_path / name for name in rules.files})
    assert made.encode(["we like it"]) == [[1, 2, 4]]


@pytest.mark.parametrize("content", [{"<pad>": 0, "a": 5, " ": 4}, ["<pad>", "<s>", "</s>", "<unk>", " ", "a"]])
def test_a_vocabulary_can_be_json(tmp_path: Path, content: object) -> None:
    (tmp_path / "v.json").write_text(json.dumps(content), encoding="utf-8")
    rules = Tokenization(source="v.json", target="v.json", kind="characters")
    assert load_tokenizer(rules, TOKENS, {"v.json": tmp_path / "v.json"}).encode(["a a"]) == [[5, 4, 5, 2]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", "a\nb\na\n", "'a' occurs twice, with the ids 0 and 2"),
        ("v.json", "{}", "a unique id"),
        ("v.json", '{"a": 1, "b": 1}', "a unique id"),
        ("v.json", '{"a": "b"}', "should be an array of tokens"),
        ("v.json", '{"a": -1}', "should be an array of tokens"),
        ("v.json", "[]", "it is empty"),
        ("v.json", "[" * 100_000, "is not a vocabulary"),
        ("v.txt", "\udcff", "is not a vocabulary"),
    ],
)
def test_an_invalid_vocabulary_file_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    rules = Tokenization(source=name, target=name, kind="words")
    with pytest.raises(DataError, match=message):
        load_tokenizer(rules, TOKENS, {name: tmp_path / name})


@pytest.mark.parametrize(
    "settings", [{"kind": "bpe"}, {"kind": "pieces"}, {"source_codes": "a", "target_codes": "b"}, {"source_length": -1}]
)
def test_contradictory_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"are required for the kinds 'bpe'|between 0 and"):
        Tokenization(source="a", target="b", **settings)  # type: ignore[arg-type]


def test_t5_reads_special_tokens_in_the_text_and_never_writes_them(tmp_path: Path) -> None:
    shutil.copyfile(DEFAULT_BUNDLE / "tokenizer.model", tmp_path / "spiece.model")
    pieces = SentencePieceProcessor(model_file=str(tmp_path / "spiece.model"))
    size, unk = pieces.get_piece_size(), pieces.unk_id()
    tokens = SpecialTokens(pad=pieces.pad_id(), bos=pieces.pad_id(), eos=pieces.eos_id(), unk=unk)
    rules = Tokenization(source="spiece.model", target="spiece.model", kind="t5", sentinels=10)
    made = load_tokenizer(rules, tokens, {"spiece.model": tmp_path / "spiece.model"})
    a_dog, a_cat = pieces.encode("a dog"), pieces.encode("a cat.")
    [ids] = made.encode(["a dog<extra_id_0> <extra_id_9>a cat.</s>"])
    assert ids == [*a_dog, size + 9, size, *a_cat, tokens.eos, tokens.eos]
    assert made.tokenize_source("a dog<extra_id_1>") == [*map(pieces.id_to_piece, a_dog), "<extra_id_1>", "</s>"]
    assert made.decode([[*ids, size + 10, unk, *a_dog]]) == ["a dog a cat. a dog"]
    assert made.unknown_characters("a <unk>水🙂", made.encode(["a <unk>水🙂"])[0]) == 2


def test_a_prefix_is_put_before_every_source_with_visible_text() -> None:
    plain = Tokenizer.load(DEFAULT_BUNDLE / "tokenizer.model", DEFAULT_BUNDLE / "tokenizer.model", eos=3)
    prefixed = plain.with_source_prefix("Say it in German: ")
    assert prefixed.encode(["A dog."]) == plain.encode(["Say it in German: A dog."])
    assert prefixed.tokenize_source("A dog.") == plain.tokenize_source("Say it in German: A dog.")
    assert prefixed.encode_visible(["", " ", "\u200b", "A dog."]) == [[], [], [], prefixed.encode(["A dog."])[0]]
    assert prefixed.encode_target(["Ein Hund."]) == plain.encode_target(["Ein Hund."])
    assert prefixed.with_source_prefix(None) is prefixed
    assert prefixed.with_source_prefix("").encode(["A dog."]) == plain.encode(["A dog."])
