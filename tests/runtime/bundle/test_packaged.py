"""The bundle that comes with the package is known by its digests; whatever differs from it is vetted."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from seq2edge import Translator
from seq2edge.bundle import packaged, tensor_names
from seq2edge.bundle.atomic_files import sha256_of
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle, vet_graphs
from seq2edge.errors import BundleError
from seq2edge.text.vocabularies.sentencepiece_vetting import vet_sentencepiece

TOKENIZER = DEFAULT_BUNDLE / packaged.TOKENIZER
STALE = "the packaged bundle has changed: run  make default-digest"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEFAULT_BUNDLE, tmp_path / "bundle"))


def replace_by_decoder(folder: Path, name: str) -> None:
    """Put another graph in the place of one, as an attacker could, with the right hash."""
    content = json.loads((folder / tensor_names.MANIFEST).read_text(encoding="utf-8"))
    shutil.copyfile(folder / tensor_names.DECODER, folder / name)
    content["files"][name] = content["files"][tensor_names.DECODER]
    (folder / tensor_names.MANIFEST).write_text(json.dumps(content), encoding="utf-8")


def test_the_digests_in_the_code_are_those_of_the_packaged_bundle() -> None:
    names = sorted(path.name for path in DEFAULT_BUNDLE.iterdir())
    digests = {name: hashlib.blake2b((DEFAULT_BUNDLE / name).read_bytes(), digest_size=32) for name in names}
    assert {name: digest.hexdigest() for name, digest in digests.items()} == packaged.DIGESTS, STALE
    assert load_bundle(DEFAULT_BUNDLE).packaged


def test_the_packaged_bundle_passes_the_checks_that_loading_it_leaves_out() -> None:
    manifest = load_bundle(DEFAULT_BUNDLE).manifest
    assert {name: sha256_of(DEFAULT_BUNDLE / name) for name in manifest.files} == {
        name: entry.sha256 for name, entry in manifest.files.items()
    }
    vet_graphs(DEFAULT_BUNDLE, manifest)
    vet_sentencepiece(TOKENIZER.read_bytes(), TOKENIZER)


def test_a_copy_is_recognized_and_one_with_another_manifest_is_not(copy: Path) -> None:
    assert load_bundle(copy).packaged
    with (copy / tensor_names.MANIFEST).open("a", encoding="utf-8") as file:
        file.write(" ")
    assert not load_bundle(copy).packaged


def test_without_its_hashes_a_bundle_is_not_recognized(copy: Path) -> None:
    assert not load_bundle(copy, check_hashes=False).packaged
    encoder = (copy / tensor_names.ENCODER).read_bytes()
    (copy / tensor_names.ENCODER).write_bytes(bytes(len(encoder)))
    with pytest.raises(BundleError, match=r"encoder\.onnx is not a graph that seq2edge would write"):
        load_bundle(copy, check_hashes=False)


def test_another_graph_with_the_right_hash_is_vetted(copy: Path) -> None:
    replace_by_decoder(copy, tensor_names.ENCODER)
    with pytest.raises(BundleError, match=r"encoder\.onnx cannot be called"):
        load_bundle(copy)


def test_the_scorer_of_another_bundle_is_vetted_before_it_is_opened(copy: Path) -> None:
    replace_by_decoder(copy, tensor_names.SCORER)
    with Translator(copy, threads=1) as translator:
        assert translator.translate(["Good morning."])[0].text
        with pytest.raises(BundleError, match=r"scorer\.onnx cannot be called"):
            translator.score(["Good morning."], ["Bom dia."])
