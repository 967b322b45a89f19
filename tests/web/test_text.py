"""Text in JavaScript is split, tokenized and joined exactly as in Python, whatever it is made of."""

import json
import random
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scripts_text import lines, sentences, train_sentencepiece
from tokenizers import Tokenizer as HuggingFaceTokenizer
from tokenizers import decoders, models, pre_tokenizers, trainers

from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.text.segments import join_texts, make_segments
from seq2edge.text.sentence_splitter import split_sentences

from .conftest import Node, manifest_of, python_tokenizer

ROOT = Path(__file__).parents[2]
DEFAULT_VOCABULARY = ROOT / "models" / "en-pt" / "tokenizer.model"
TEXTS = 10_000
PIECES = SpecialTokens(pad=0, bos=2, eos=3, unk=1)
MARKS = [
    *".!?…。！？।؟;:,\"“”„«»‘’'()[]{}-–—",
    " ",
    " ",
    "  ",
    "\n",
    "\t",
    "\u00a0",
    "\u3000",
    "\u2028",
    "\x1c",
    "\x85",
]
KNOWN = (
    "Mr. Dr. e.g. z. B. d. h. v. Chr. etc. U.S. p.m. No. Jr. 3. 12. 2. Oktober am der 1990 г. Он A. B. Fig. pp. ... ?! "
    ">>pt<< <extra_id_0> </s> <unk> ▁ ▁▁ @@ ﬁ Å ǅ İ ß ſ Σας ΣΑΣ 👩‍👩‍👧 🇧🇷🇩🇪 👍🏽 क्ष தமிழ் ကျွန် ខ្មែរ ﷺ ½ ² ① Ⅷ 한국어 ά; ﻿"
)


def texts(count: int = TEXTS, seed: int = 3) -> list[str]:
    """Return lines of known and random words in many scripts, with odd characters, marks and spaces between them."""
    chance = random.Random(seed)
    found = ["", " ", "\n", "▁", " ▁ ", "\u200b", "\ufeff", "\x00", "a\x00b", *lines(count // 2, seed)]
    while len(found) < count:
        parts = [chance.choice((_random_letters, _known, _mark))(chance) for _ in range(chance.randint(1, 12))]
        found.append(chance.choice(("", " ", " ")).join(parts))
    return found


def _random_letters(chance: random.Random) -> str:
    """Return a few characters of one block of any plane that this Python's Unicode knows."""
    while True:
        start = chance.choice((chance.randrange(0x20, 0x3000), chance.randrange(0x20, 0x20000)))
        letters = [chr(start + chance.randrange(64)) for _ in range(chance.randint(1, 6))]
        if all(unicodedata.category(letter) not in ("Cn", "Cs") for letter in letters):
            return "".join(letters)


def _known(chance: random.Random) -> str:
    return chance.choice(KNOWN.split(" "))


def _mark(chance: random.Random) -> str:
    return chance.choice(MARKS)


def write_vocabulary(folder: Path, kind: str) -> tuple[Tokenization, SpecialTokens]:
    """Write a small vocabulary of a kind, learned from sentences in nine languages."""
    known = sentences()
    if kind == "default":
        (folder / "a.model").write_bytes(DEFAULT_VOCABULARY.read_bytes())
        return Tokenization(source="a.model", target="a.model"), PIECES
    if kind in SENTENCEPIECE:
        options = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, **SENTENCEPIECE[kind]}
        (folder / "a.model").write_bytes(train_sentencepiece(known, 600, **options))
        return Tokenization(source="a.model", target="a.model"), PIECES
    if kind == "t5":
        options = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
        (folder / "a.model").write_bytes(train_sentencepiece(known, 600, **options))
        rules = Tokenization(source="a.model", target="a.model", kind="t5", sentinels=20, source_prefix="translate: ")
        return rules, SpecialTokens(pad=0, bos=0, eos=1, unk=2)
    if kind == "pieces":
        (folder / "a.model").write_bytes(train_sentencepiece(known, 500, byte_fallback=True))
        return _write_pieces(folder)
    if kind in TOKENIZERS:
        (folder / "a.json").write_text(_hugging_face(known))
        return Tokenization(source="a.json", target="a.json", kind="tokenizers"), PIECES
    return _write_plain(folder, kind, known)


SENTENCEPIECE: dict[str, dict[str, Any]] = {
    "unigram": {},
    "unigram with bytes": {"byte_fallback": True, "split_digits": True},
    "unigram as it is": {
        "normalization_rule_name": "identity",
        "add_dummy_prefix": False,
        "remove_extra_whitespaces": False,
        "user_defined_symbols": [">>pt<<", "한국", "▁▁"],
    },
    "unigram with suffixes": {"treat_whitespace_as_suffix": True, "normalization_rule_name": "nfkc_cf"},
    "bpe": {"model_type": "bpe"},
    "bpe with bytes": {"model_type": "bpe", "byte_fallback": True, "user_defined_symbols": [">>pt<<", "12"]},
    "sentencepiece words": {"model_type": "word"},
    "sentencepiece characters": {"model_type": "char"},
}
TOKENIZERS = ("byte-level",)
PLAIN = ("characters", "words", "words and punctuation", "words between blanks", "codes", "codes between blanks")
KINDS = ("default", *SENTENCEPIECE, "t5", "pieces", *PLAIN, *TOKENIZERS)


def _write_pieces(folder: Path) -> tuple[Tokenization, SpecialTokens]:
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor(model_file=str(folder / "a.model"))
    pieces = [model.id_to_piece(number) for number in range(3, model.get_piece_size()) if number % 7]
    names = ["</s>", "<unk>", *pieces, ">>pt<<", ">>de<<", "<pad>"]
    (folder / "a.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    rules = Tokenization(
        source="a.json", target="a.json", kind="pieces", source_codes="a.model", target_codes="a.model",
        silent=(len(names) - 2,), lowercase=True, plain_spaces=True,
    )  # fmt: skip
    return rules, SpecialTokens(pad=len(names) - 1, bos=len(names) - 1, eos=0, unk=1)


def _write_plain(folder: Path, kind: str, known: list[str]) -> tuple[Tokenization, SpecialTokens]:
    special = ["<pad>", "<unk>", "<s>", "</s>"]
    splits: dict[str, Any] = {"punctuation": "punctuation", "blanks": "blanks"}
    split = splits.get(kind.split()[-1], "spaces")
    if kind == "characters":
        letters = sorted({letter for line in known for letter in line} - {"\n"})
        (folder / "a.txt").write_text("\n".join(special + letters) + "\n")
        return Tokenization(source="a.txt", target="a.txt", kind="characters", lowercase=True), PIECES
    words = sorted({word for line in known for word in line.rstrip(".!?。").split()} | {".", "!", "?"})
    if kind.startswith("words"):
        (folder / "a.txt").write_text("\n".join(special + words) + "\n")
        return Tokenization(source="a.txt", target="a.txt", kind="words", split=split), PIECES
    codes, pieces = _learn_codes(words)
    (folder / "a.codes").write_text("#version: 0.2\n" + "\n".join(codes) + "\n")
    (folder / "a.txt").write_text("\n".join(special + pieces) + "\n")
    rules = Tokenization(
        source="a.txt", target="a.txt", kind="bpe", source_codes="a.codes", target_codes="a.codes", split=split
    )
    return rules, PIECES


def _learn_codes(words: list[str], count: int = 300) -> tuple[list[str], list[str]]:
    """Merge the most frequent pairs, and return the merges and all pieces of the words."""
    split = [[*word[:-1], word[-1] + "</w>"] for word in words]
    merges: list[str] = []
    pieces = {piece for word in split for piece in word}
    while len(merges) < count:
        pairs = Counter(pair for word in split for pair in pairwise(word))
        if not pairs:
            break
        first, second = max(sorted(pairs), key=pairs.__getitem__)
        merges.append(f"{first} {second}")
        pieces.add(first + second)
        for word in split:
            for index in range(len(word) - 2, -1, -1):
                if word[index : index + 2] == [first, second]:
                    word[index : index + 2] = [first + second]
    shown = {piece.removesuffix("</w>") if piece.endswith("</w>") else f"{piece}@@" for piece in pieces}
    return merges, sorted(shown)


def _hugging_face(known: list[str]) -> str:
    tokenizer = HuggingFaceTokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<pad>", "<unk>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(known, trainer)
    return str(tokenizer.to_str())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_vocabulary_gives_the_same_ids_and_texts(kind: str, node: Node, tmp_path: Path) -> None:
    rules, tokens = write_vocabulary(tmp_path, kind)
    tokenizer, given = python_tokenizer(tmp_path, rules, tokens), texts()
    encoded = tokenizer.encode(given)
    decoded = tokenizer.decode([tokenizer.encode_prefix(text) for text in given])
    found = node("tokenize", folder=str(tmp_path), manifest=manifest_of(rules, tokens), texts=given)
    assert differing(given, encoded, [ids for ids, _, _ in found]) == []
    assert differing(given, decoded, [text for _, text, _ in found]) == []
    if kind not in TOKENIZERS:
        unknown = [tokenizer.unknown_characters(text, ids) for text, ids in zip(given, encoded, strict=True)]
        assert differing(given, unknown, [count for _, _, count in found]) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in TOKENIZERS])
def test_any_ids_are_decoded_to_the_same_text(kind: str, node: Node, tmp_path: Path) -> None:
    rules, tokens = write_vocabulary(tmp_path, kind)
    tokenizer, chance = python_tokenizer(tmp_path, rules, tokens), random.Random(4)
    size = tokenizer.target.get_piece_size()
    rows = [[chance.randrange(size + 2) for _ in range(chance.randint(0, 12))] for _ in range(TEXTS // 5)]
    found = node("decode", folder=str(tmp_path), manifest=manifest_of(rules, tokens), rows=rows)
    assert differing(rows, tokenizer.decode(rows), found) == []


def test_texts_are_split_into_the_same_sentences(node: Node) -> None:
    given = [*texts(2 * TEXTS, seed=5), *_recorded_texts()]
    assert differing(given, [split_sentences(text) for text in given], node("split", texts=given)) == []


def test_long_texts_are_split_into_the_same_segments(node: Node, tmp_path: Path) -> None:
    rules, tokens = write_vocabulary(tmp_path, "default")
    chance, lines_ = random.Random(6), texts(400, seed=7)
    given = ["".join(chance.choices(lines_, k=chance.randint(1, 40))) for _ in range(200)]
    tokenizer = python_tokenizer(tmp_path, rules, tokens)
    # 64: a single character, U+FDFA, has 33 bytes in its normalized form, and a byte may be a token.
    for long, split, most in (("split", "sentences", 64), ("split", "none", 80), ("truncate", "sentences", 12)):
        segments = make_segments(given, tokenizer, max_tokens=most, long=long, split=split)  # type: ignore[arg-type]
        expected = [[one.text_index, one.sentence, one.index, one.space, one.text, one.ids] for one in segments]
        settings = {"maxTokens": most, "long": long, "split": split}
        found = node("segments", folder=str(tmp_path), manifest=manifest_of(rules, tokens), texts=given, **settings)
        assert differing(expected, expected, found) == []


def test_translations_are_joined_with_the_same_spaces(node: Node) -> None:
    chance, pieces = random.Random(8), texts(2000, seed=9)
    spaces = ["", " ", "  ", "\n", "\n\n ", "\u3000", "\t"]
    parts = []
    for _ in range(TEXTS // 4):
        count = chance.randint(1, 5)
        parts.append([chance.choices(pieces, k=count), chance.choices(spaces, k=count)])
    expected = [join_texts(texts_, spaces_) for texts_, spaces_ in parts]
    assert differing(parts, expected, node("join", parts=parts)) == []


def _recorded_texts() -> list[str]:
    folder = ROOT / "tests" / "runtime" / "text" / "sentences"
    return [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*")) if path.is_file()]


def differing(given: list[Any], expected: list[Any], found: list[Any]) -> list[Any]:
    """Return the first few inputs with different results, and both of them."""
    assert len(expected) == len(found)
    triples = zip(given, expected, found, strict=True)
    return [(one, wanted, got) for one, wanted, got in triples if wanted != got][:3]
