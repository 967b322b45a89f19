"""Vocabularies that would turn a short text into gigabytes, or a token into a page, are refused before use."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hostile_files import model_with_tables, replacing, tables_with, tokenizer_json

from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import DataError
from seq2edge.text.tokenizer import Tokenizer, load_tokenizer

sentencepiece_model_pb2 = pytest.importorskip("sentencepiece.sentencepiece_model_pb2", exc_type=ImportError)
MODEL = (DEFAULT_BUNDLE / "tokenizer.model").read_bytes()
TABLES = sentencepiece_model_pb2.ModelProto.FromString(MODEL).normalizer_spec.precompiled_charsmap
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
FOUR_REPLACEMENTS = [replacing("a", "a" * 1000)] * 4
HALVES = [replacing("a", "a" * 11)]


def sequence(role: str, components: list[Any]) -> dict[str, Any]:
    return {"type": "Sequence", role: components}


def precompiled(replacement: bytes) -> dict[str, str]:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(tables_with(TABLES, replacement)).decode()}


def protobuf_field(number: int, content: bytes) -> bytes:
    """Encode bytes as a field; not every release of sentencepiece knows all fields of its models."""
    size, length = len(content), []
    while size >= 128:
        length.append(size % 128 | 128)
        size //= 128
    return bytes([number << 3 | 2, *length, size]) + content


def load(path: Path, kind: Any) -> Tokenizer:
    if kind == "tokenizers":
        pytest.importorskip("tokenizers")
    rules = Tokenization(source=path.name, target=path.name, kind=kind)
    return load_tokenizer(rules, SpecialTokens(pad=0, bos=1, eos=2, unk=3), {path.name: path})


EXPANDING: dict[str, dict[str, Any]] = {
    "normalizers": {"normalizer": sequence("normalizers", FOUR_REPLACEMENTS)},
    "decoders": {"decoder": sequence("decoders", FOUR_REPLACEMENTS)},
    "nested sequences": {
        "normalizer": sequence("normalizers", [sequence("normalizers", HALVES), sequence("normalizers", HALVES)])
    },
    "a normalizer and copies": {
        "normalizer": HALVES[0],
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 11,
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {},
        },
    },
    "bytes of bytes": {"pre_tokenizer": sequence("pretokenizers", [BYTES] * 20)},
    "an empty pattern": {"normalizer": sequence("normalizers", [replacing("", "b")] * 20)},
    "an expression that finds nothing": {
        "normalizer": sequence("normalizers", [replacing("b*", "b", regex=True)] * 20)
    },
    "an empty suffix": {"decoder": sequence("decoders", [{"type": "BPEDecoder", "suffix": ""}] * 20)},
    "an empty delimiter": {
        "decoder": sequence(
            "decoders",
            [{"type": "CTC", "pad_token": "z", "word_delimiter_token": "", "cleanup": True, "suffix": "x"}] * 20,
        )
    },
    "a text to prepend": {"normalizer": {"type": "Prepend", "prepend": "a" * 1000}},
    "normalization tables": {"normalizer": precompiled(b"a" * 101)},
}


@pytest.mark.parametrize("name", EXPANDING)
def test_a_tokenizer_that_makes_a_text_much_longer_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json(**EXPANDING[name]), encoding="utf-8")
    with pytest.raises(DataError, match="can turn one character into"):
        load(path, "tokenizers")


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ({"normalizer": {"pattern": {"String": "a"}, "content": "a" * 1000}}, "without a type"),
        ({"decoder": {"type": "Sequence", "decoders": [{"type": "New"}]}}, "'New', which is not known"),
        ({"normalizer": sequence("normalizers", [{"type": "NFC"}] * 40)}, "more than 32 components"),
        ({"added_tokens": [{"id": 5, "content": "a" * 5000}]}, "a token of 5,000 characters"),
        ({"model": {"type": "WordLevel", "vocab": {"a" * 5000: 0}, "unk_token": "a"}}, "a token of 5,000 characters"),
        ({"model": {"type": "WordPiece", "vocab": {"a": 0}, "max_input_chars_per_word": 10**9}}, "above 500"),
    ],
)
def test_components_without_a_known_bound_are_refused(components: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json(**components), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        load(path, "tokenizers")


def test_a_tokenizer_with_a_key_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    harmless = tokenizer_json(decoder={"type": "Fuse"})
    hostile = json.dumps(replacing("a", "a" * 1000))
    path.write_text(harmless.replace('"decoder"', f'"decoder": {hostile}, "decoder"'), encoding="utf-8")
    with pytest.raises(DataError, match="the same key twice"):
        load(path, "tokenizers")


def test_the_components_of_well_known_models_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    components = {
        "normalizer": sequence("normalizers", [precompiled(b" "), replacing(" {2,}", "▁", regex=True)]),  # NLLB
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "decoder": sequence("decoders", [replacing("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}]),
    }
    path.write_text(tokenizer_json(**components), encoding="utf-8")
    assert load(path, "tokenizers").encode(["a"])


@pytest.mark.parametrize("denormalizer", [False, True])
def test_normalization_tables_with_a_long_replacement_are_refused(denormalizer: bool, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(model_with_tables(MODEL, b"a" * 50_000_000, denormalizer=denormalizer))
    with pytest.raises(DataError, match="tables can turn one character into 50,000,000, but at most 100 are allowed"):
        load(path, "sentencepiece")


def test_normalization_tables_with_a_short_replacement_are_used(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(model_with_tables(MODEL, b"and"))
    tokenizer = load(path, "sentencepiece")
    assert tokenizer.encode(["\t"]) == tokenizer.encode(["and"])


def test_a_replacement_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    content = sentencepiece_model_pb2.ModelProto.FromString(model_with_tables(MODEL, b"a\x8d"))
    content.trainer_spec.byte_fallback = False
    for piece in content.pieces:
        piece.type = 1 if piece.type == 6 else piece.type  # bytes become ordinary pieces
    path.write_bytes(content.SerializeToString())
    with pytest.raises(DataError, match="not UTF-8"):
        load(path, "sentencepiece").tokenize_source("a\tb")


def test_a_model_whose_unknown_token_or_test_is_a_page_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    content = sentencepiece_model_pb2.ModelProto.FromString(MODEL)
    content.trainer_spec.unk_surface = "a" * 5000
    path.write_bytes(content.SerializeToString())
    with pytest.raises(DataError, match="a token of 5,000 characters"):
        load(path, "sentencepiece")
    content.trainer_spec.ClearField("unk_surface")
    sample = protobuf_field(1, b"a" * 100_000)
    path.write_bytes(content.SerializeToString() + protobuf_field(4, protobuf_field(1, sample)))  # self_test_data
    with pytest.raises(DataError, match="test data"):
        load(path, "sentencepiece")


@pytest.mark.parametrize("kind", ["words", "sentencepiece"])
def test_a_token_as_long_as_a_book_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary"
    if kind == "words":
        path.write_text("<pad>\n<s>\n</s>\n<unk>\n" + "a" * 5000, encoding="utf-8")
    else:
        content = sentencepiece_model_pb2.ModelProto.FromString(MODEL)
        content.pieces[-1].piece = "a" * 5000
        path.write_bytes(content.SerializeToString())
    with pytest.raises(DataError, match=r"a token of 5,0\d\d characters"):
        load(path, kind)
