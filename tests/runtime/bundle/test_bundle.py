"""A bundle is used only if it is complete and unchanged; every problem is a one-line error."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import BundleError
from seq2edge.scoring.scorer import open_scorer


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEFAULT_BUNDLE, tmp_path / "bundle"))


def edit(folder: Path, change: Callable[[dict], object]) -> None:
    path = folder / tensor_names.MANIFEST
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(BundleError) as caught:
        load_bundle(folder)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_default_bundle_loads() -> None:
    bundle = load_bundle(DEFAULT_BUNDLE)
    assert bundle.manifest.languages.source == "en"
    assert bundle.size == sum(path.stat().st_size for path in DEFAULT_BUNDLE.iterdir())


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "is not a bundle")
    refused(tmp_path / "nothing", "is not a bundle")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_manifest_that_is_not_an_object_is_refused(copy: Path, content: bytes) -> None:
    (copy / tensor_names.MANIFEST).write_bytes(content)
    refused(copy, tensor_names.MANIFEST)


def test_another_format_version_is_refused(copy: Path) -> None:
    edit(copy, lambda content: content.update(format_version=2))
    refused(copy, "format version 2", "reads version 1")


def test_unknown_and_missing_keys_are_named(copy: Path) -> None:
    edit(copy, lambda content: (content.update(surprise=1), content.pop("tokens")))
    refused(copy, "'surprise'", "'tokens'")


def test_a_missing_nested_key_is_named_even_if_it_has_a_default(copy: Path) -> None:
    edit(copy, lambda content: (content["generation"].pop("num_beams"), content["architecture"].pop("norm_first")))
    refused(copy, "manifest.generation lacks the key 'num_beams'", "manifest.architecture lacks the key 'norm_first'")


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/b", ".."])
def test_a_file_outside_the_folder_is_refused(copy: Path, name: str) -> None:
    edit(copy, lambda content: content["files"].update({name: {"sha256": "0", "size": 1}}))
    refused(copy, "not a plain file name")


def test_a_link_is_refused(copy: Path, tmp_path: Path) -> None:
    (copy / tensor_names.WEIGHTS).rename(tmp_path / "elsewhere")
    (copy / tensor_names.WEIGHTS).symlink_to(tmp_path / "elsewhere")
    refused(copy, tensor_names.WEIGHTS, "not a plain file")


@pytest.mark.parametrize(
    "name", [tensor_names.ENCODER, tensor_names.DECODER, tensor_names.SCORER, tensor_names.WEIGHTS, "tokenizer.model"]
)
def test_a_missing_truncated_or_changed_file_is_named(copy: Path, name: str) -> None:
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:-1])
    refused(copy, name, "bytes instead of")
    (copy / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    refused(copy, name, "sha256")
    (copy / name).unlink()
    refused(copy, name, "missing")


def test_the_check_of_hashes_can_be_skipped(copy: Path) -> None:
    content = (copy / tensor_names.WEIGHTS).read_bytes()
    (copy / tensor_names.WEIGHTS).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert load_bundle(copy, check_hashes=False).folder == copy


def test_a_bundle_without_a_scorer_loads(copy: Path) -> None:
    (copy / tensor_names.SCORER).unlink()
    edit(copy, lambda content: content["files"].pop(tensor_names.SCORER))
    bundle = load_bundle(copy)
    assert open_scorer(bundle, OnnxEngine(bundle, threads=1)) is None


def test_a_manifest_with_two_equal_keys_is_refused(copy: Path) -> None:
    path = copy / tensor_names.MANIFEST
    path.write_text(path.read_text(encoding="utf-8").replace("{", '{"family": "other",', 1), encoding="utf-8")
    with pytest.raises(BundleError, match="the key 'family' appears twice"):
        load_bundle(copy)


def test_a_manifest_that_omits_a_file_is_refused(copy: Path) -> None:
    edit(copy, lambda content: content["files"].pop(tensor_names.DECODER))
    refused(copy, "files does not name decoder.onnx")


@pytest.mark.parametrize(("family", "split"), [("seq2edge", "sentences"), ("marian", "sentences"), ("t5", "none")])
def test_the_family_decides_how_an_older_bundle_splits_texts(copy: Path, family: str, split: str) -> None:
    edit(copy, lambda content: content.pop("split") and content.update(family=family))
    assert load_bundle(copy).manifest.split == split
    edit(copy, lambda content: content.update(split="auto"))
    assert load_bundle(copy).manifest.split == split


def test_a_bundle_names_how_it_splits_texts(copy: Path) -> None:
    edit(copy, lambda content: content.update(split="none"))
    assert load_bundle(copy).manifest.split == "none"
    edit(copy, lambda content: content.update(split="words"))
    refused(copy, "manifest.split is 'words'", "'sentences', 'none'")
