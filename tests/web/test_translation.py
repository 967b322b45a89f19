"""Translations in node are those of Python, token for token, for every kind of decoder and every option."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hugging_face_folders import FOLDERS
from once import once
from tiny_checkpoint import write_checkpoint
from torch import nn
from user_modules import Recurrent, WithoutCache
from widened_bundle import write_widened

from seq2edge import Translator
from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge_export import export_module
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.export import export_bundle

from .conftest import Node

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "vectors"
MODEL = ROOT / "models" / "en-pt"
LINES = 60  # of the dev set, besides the sentences that show what the model can do
TEXTS = [
    "the old man sees a red house.",
    "nobody forgets two green apples. every bird wants some bread! my friend?",
    "our teacher   paints his bicycle\n\nthe winter sea",
    "",
    "🙂 …",
    " ".join(["the girl next door remembers the long letter,"] * 12),
]
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1},
    "beams": {"num_beams": 4},
    "all beams": {"num_beams": 5, "num_return_sequences": 5},
    "length penalty": {"num_beams": 3, "length_penalty": 2.0, "max_new_tokens": 12},
    "short outputs": {"num_beams": 3, "length_penalty": -1.5},
    "early stopping": {"num_beams": 4, "early_stopping": True},
    "never early": {"num_beams": 4, "early_stopping": "never", "num_return_sequences": 2},
    "no repetition": {"num_beams": 1, "no_repeat_ngram_size": 2, "repetition_penalty": 1.4},
    "no repeated beams": {"num_beams": 4, "no_repeat_ngram_size": 2, "repetition_penalty": 0.8},
    "minimum": {"num_beams": 2, "min_new_tokens": 9, "max_new_tokens": 10},
    "lengths with the start": {"num_beams": 1, "min_length": 6, "max_length": 8},
    "forced": {"num_beams": 3, "forced_bos_token_id": 9, "forced_eos_token_id": 3, "max_new_tokens": 6},
    "forbidden": {"num_beams": 3, "suppress_tokens": [5, 7], "bad_words_ids": [[11], [12, 13]]},
    "renormalized": {"num_beams": 3, "suppress_tokens": [5, 7, 8, 9], "renormalize_logits": True},
    "greedy, renormalized": {"num_beams": 1, "suppress_tokens": [5, 7, 8, 9], "renormalize_logits": True},
    "several ends": {"num_beams": 3, "eos_token_id": [3, 20, 30]},
    "whole texts": {"num_beams": 2, "split": "none"},
    "truncated": {"num_beams": 1, "long": "truncate"},
}
# Each has another place for language tags: before or after the source, the decoder's start or the first output.
LANGUAGES: dict[str, dict[str, Any]] = {
    "marian": {"target_lang": "fra"},
    "mbart": {"source_lang": "en_XX", "target_lang": "ro_RO"},
    "mbart50": {"source_lang": "zh_CN", "target_lang": "sl_SI"},
    "m2m100": {"source_lang": "en", "target_lang": "de"},
    "nllb": {"source_lang": "deu_Latn", "target_lang": "fra_Latn"},
    "t5": {"source_prefix": "translate English to German: "},
    "bart": {},
}
LIVELY = {"repetition_penalty": 2.5, "max_new_tokens": 12}  # outputs that change and end soon
GREEDY_AND_BEAMS = [{"num_beams": 1}, {"num_beams": 4}]
EXACT = ("text", "tokens", "ended", "repeats", "sentences", "parts", "truncated", "unknown", "missing", "notes")


@pytest.mark.parametrize("kind", ["inplace", "append", "recurrent"])
def test_every_option_gives_the_same_translations(kind: str, node: Node) -> None:
    check(VECTORS / kind, VECTORS / kind, TEXTS, [*OPTIONS.values()], node)


def test_a_prefix_is_continued_in_the_same_way(node: Node) -> None:
    bundle = VECTORS / "inplace"
    expected = Translator(bundle, threads=1).translate(TEXTS[:2], prefixes=["the old", "the old"], num_beams=3)
    options = [{"prefix": "the old", "num_beams": 3}]
    [found] = node("translate", folder=str(bundle), texts=TEXTS[:2], options=options)
    assert [one["tokens"] for one in found] == [list(one.tokens) for one in expected]


@pytest.mark.parametrize("family", LANGUAGES)
def test_languages_and_prefixes_of_every_family_are_those_of_python(family: str, node: Node, tmp_path: Path) -> None:
    FOLDERS[family][0](tmp_path / "model")
    bundle = export_bundle(tmp_path / "model", tmp_path / "bundle", compare=False).folder
    options = [{"num_beams": beams, **LANGUAGES[family], **LIVELY} for beams in (1, 3)]
    check(bundle, bundle, TEXTS, options, node)


@pytest.mark.parametrize("module", [Recurrent, WithoutCache])
def test_a_user_module_gives_the_same_translations(module: type[nn.Module], node: Node, tmp_path: Path) -> None:
    torch.manual_seed(3)
    checkpoint = write_checkpoint(tmp_path / "checkpoint")
    like = load_checkpoint(checkpoint)
    bundle = export_module(
        module(),
        tmp_path / "bundle",
        tokens=like.config.tokens,
        tokenization=like.tokenization,
        tokenizer_folder=checkpoint,
        generation=like.generation,
        max_positions=64,
        compare=False,
    ).folder
    check(bundle, bundle, TEXTS, [{"num_beams": beams, **LIVELY} for beams in (1, 3)], node)


@pytest.mark.parametrize("beams", [1, 4])
def test_a_stream_has_the_same_translation(beams: int, node: Node) -> None:
    bundle = VECTORS / "inplace"
    expected = Translator(bundle, threads=1).translate(TEXTS, num_beams=beams)
    found = node("stream", folder=str(bundle), texts=TEXTS, options={"num_beams": beams})
    assert ["".join(one["pieces"]) for one in found] == [one.text for one in expected]
    assert [one["tokens"] for one in found] == [list(one.tokens) for one in expected]


@pytest.fixture(scope="session")
def full_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export the default model in float32."""
    make = lambda folder: export_bundle(MODEL, folder / "bundle", compare=False)  # noqa: E731
    return once(tmp_path_factory, "full", make) / "bundle"


def test_the_default_model_gives_the_same_translations_in_float32(full_bundle: Path, node: Node) -> None:
    check(full_bundle, full_bundle, sentences(), GREEDY_AND_BEAMS, node)


def test_widened_int8_is_float32_arithmetic_with_the_rounded_weights(
    full_bundle: Path, node: Node, tmp_path: Path
) -> None:
    widened = write_widened(DEFAULT_BUNDLE, full_bundle, tmp_path / "widened")
    check(widened, DEFAULT_BUNDLE, sentences(), GREEDY_AND_BEAMS, node)


def sentences() -> list[str]:
    lines = (MODEL / "dev.en").read_text(encoding="utf-8").splitlines()[:LINES]
    return [*lines, *(MODEL / "sentences.en").read_text(encoding="utf-8").splitlines()]


def check(python: Path, javascript: Path, texts: list[str], options: list[dict[str, Any]], node: Node) -> None:
    """Compare what Python computes with one bundle and JavaScript with another, or the same."""
    translator = Translator(python, threads=1)
    found = node("translate", folder=str(javascript), texts=texts, options=options)
    for chosen, of_options in zip(options, found, strict=True):
        expected = [one.as_dict() for one in translator.translate(texts, **chosen)]
        for text, wanted, got in zip(texts, expected, of_options, strict=True):
            alternatives = [_exact(one) for one in wanted.get("alternatives", [])]
            assert _exact(got) == _exact(wanted), (chosen, text)
            assert [_exact(one) for one in got["alternatives"]] == alternatives, (chosen, text)


def _exact(translation: dict[str, Any]) -> dict[str, Any]:
    """Return what must be equal; scores are float32 sums, whose last digits depend on the order."""
    values = {name: translation[name] for name in EXACT}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
