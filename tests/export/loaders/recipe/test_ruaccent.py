"""Compare with a published model: ruaccent-predictor, which puts the stress on Russian text."""

import copy
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tolerances import FLOAT64, network_rounding

from seq2edge import Translator
from seq2edge.bundle.bundle import load_bundle
from seq2edge.scoring.scorer import forced_logits
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.loaders.recipe.draft import draft_recipe
from seq2edge_export.verify import verify

pytestmark = pytest.mark.peers

PACKAGE = "ruaccent-predictor==1.2.0"
SHA256 = "b1ca8204"  # how the wheel's begins
# Logits reach 31. In float32 the package itself is 2.9e-4 from what it computes in double precision, the bundle 3.4e-4,
# and the two are 4.3e-4 apart; in double precision the difference between the models is 4.4e-13.
SIZE, LENGTH = 31, 256
ANSWERS = {
    'heads = "?"': "heads = 8",
    'pad = "?"': "pad = 0",
    'bos = "?"': "bos = 1",
    'eos = "?"': "eos = 2",
    'unk = "?"': "unk = 3",
    'kind = "?"': 'kind = "characters"\nsource_length = 256',  # it was trained without a mask for the padding
    'source = "?"': 'source = "vocab.json"',
    'target = "?"': 'target = "vocab.json"',
    "max_new_tokens = 128": "max_new_tokens = 255",
}
TEXTS = [
    "привет мир",
    "замок",
    "Мама мыла раму.",
    "На двери висит замок.",
    "В старом замке живут привидения.",
    "Я люблю читать книги вечером, а потом ложусь спать.",
    "Сколько стоит билет до Санкт-Петербурга?",
    "Ёлка, ёж и объявление!",
    "Он сказал: «Это невозможно».",
    "12 месяцев, 7 дней",
    "hello мир ☃",
    "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему.",
]


@dataclass(frozen=True)
class Peer:
    """The model of the package and the bundle of its files."""

    accentor: Any
    recipe: Path
    bundle: Path


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Download and unpack the package."""
    folder = tmp_path_factory.mktemp("ruaccent")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "download", "--no-deps", "--dest", str(folder), PACKAGE], check=True)
    (wheel,) = folder.glob("*.whl")
    assert hashlib.sha256(wheel.read_bytes()).hexdigest().startswith(SHA256)
    subprocess.run([*pip, "install", "--no-deps", "--target", str(folder), str(wheel)], check=True)
    return folder


@pytest.fixture(scope="module", params=["ort", "portable"])
def peer(package: Path, request: pytest.FixtureRequest, monkeypatch_module: pytest.MonkeyPatch) -> Peer:
    monkeypatch_module.syspath_prepend(str(package))
    accentor = import_module("ruaccent").Accentor(device="cpu")
    recipe = write_recipe(package / "ruaccent" / "model")
    bundle = export_bundle(recipe, package / request.param, dialect=request.param)  # compared with the recipe's model
    return Peer(accentor, recipe, bundle.folder)


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def write_recipe(folder: Path) -> Path:
    recipe = folder / "recipe.toml"
    text = draft_recipe(folder / "acc_model.pt", recipe)
    for question, answer in ANSWERS.items():
        assert question in text, question
        text = text.replace(question, answer)
    recipe.write_text(text, encoding="utf-8")
    return recipe


def test_the_text_is_that_of_the_package(peer: Peer) -> None:
    results = Translator(peer.bundle, threads=1).translate(TEXTS)
    assert [result.text for result in results] == peer.accentor(TEXTS)
    assert results[0].text == "приве'т мир"


@torch.inference_mode()
def test_every_token_and_logit_is_that_of_the_package(peer: Peer) -> None:
    translator = Translator(peer.bundle, threads=1)
    for text, result in zip(TEXTS, translator.translate(TEXTS), strict=True):
        source = peer.accentor._text_to_tensor(text)
        assert translator.tokenizer.encode([text]) == source.tolist()
        theirs = package_logits(peer.accentor.model, source, result.tokens)
        assert theirs.argmax(axis=1).tolist() == list(result.tokens)
        ours = [logits for _, logits in forced_logits(translator.engine, source.tolist(), [result.tokens], start=1)]
        limit = network_rounding(translator.manifest.architecture, SIZE, length=LENGTH)
        np.testing.assert_allclose(np.concatenate(ours), theirs, rtol=0, atol=limit)


@torch.inference_mode()
def test_the_models_agree_in_double_precision(peer: Peer) -> None:
    theirs, ours = copy.deepcopy(peer.accentor.model).double(), load_checkpoint(peer.recipe).model.double()
    for text in TEXTS[:3]:
        source = peer.accentor._text_to_tensor(text)
        tokens = peer.accentor.model.generate(source)[0].tolist()[1:]
        logits = ours(source, source > -1, torch.tensor([[1, *tokens[:-1]]]))[0].numpy()
        limit = network_rounding(ours.architecture, SIZE, length=LENGTH, epsilon=FLOAT64)
        np.testing.assert_allclose(logits, package_logits(theirs, source, tokens), rtol=0, atol=limit)


def package_logits(model: Any, source: torch.Tensor, tokens: Sequence[int]) -> Any:
    """Return the logits (T, V) of each token given those before it."""
    mask = model.generate_square_subsequent_mask(len(tokens)).to(model.output_proj.weight.dtype)
    return model(source, torch.tensor([[1, *tokens[:-1]]]), tgt_mask=mask)[0].numpy()


def test_verify_passes(peer: Peer) -> None:
    verdict = verify(load_bundle(peer.bundle), load_checkpoint(peer.recipe).source_model(), texts=TEXTS[:4])
    assert verdict.passed, str(verdict)
