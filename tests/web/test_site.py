"""A site is complete or absent, works in chromium with the network switched off, and says what is wrong."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from javascript import JAVASCRIPT, served, visit

from seq2edge import Translator
from seq2edge.bundle.atomic_files import sha256_of
from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.web.server import HEADERS
from seq2edge.web.site import make_site

VECTORS = Path(__file__).parents[1] / "vectors"
TEXT = "Good morning! Where is the nearest train station?"
FEW_PAGES = 300  # of 64 KB: onnxruntime-web begins with 256, and the default model needs more
GPU = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan"]  # emulated
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a site of a tiny bundle."""
    return make_site([VECTORS / "inplace", VECTORS / "recurrent"], tmp_path_factory.mktemp("web") / "site").folder


@pytest.fixture(scope="session")
def default_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_site([DEFAULT_BUNDLE], tmp_path_factory.mktemp("web") / "default").folder


@pytest.fixture
def copied(site: Path, tmp_path: Path) -> Path:
    shutil.copytree(site, tmp_path / "site")
    return tmp_path / "site"


def test_a_site_lists_the_hash_of_every_file(site: Path) -> None:
    listed = json.loads((site / "site.json").read_text())["files"]
    files = {path.relative_to(site).as_posix(): path for path in site.rglob("*") if path.is_file()}
    assert listed.keys() == files.keys() - {"site.json"}
    assert all(entry["sha256"] == sha256_of(files[name]) for name, entry in listed.items())


def test_the_server_sends_compressed_files_and_the_headers_for_threads(site: Path) -> None:
    with served(site) as address:
        request = Request(f"{address}src/translator.mjs", headers={"Accept-Encoding": "gzip"})
        with urlopen(request) as answer:
            content = answer.read()
            assert answer.headers["Content-Encoding"] == "gzip"
            assert answer.headers["Content-Type"] == "text/javascript"
            assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert gzip.decompress(content) == (site / "src" / "translator.mjs").read_bytes()


@pytest.mark.parametrize("threads", [1, 2])
def test_chromium_gives_the_translations_of_python(threads: int, site: Path) -> None:
    texts = ["the old man sees a red house.", "nobody forgets two green apples. every bird wants some bread!"]
    options = [{"num_beams": 1}, {"num_beams": 4}]
    for name in ("inplace", "recurrent"):
        seen = visit(site, bundle=f"bundles/{name}", texts=texts, options=options, load={"threads": threads})
        translator = Translator(VECTORS / name, threads=1)
        for chosen, found in zip(options, seen["translations"], strict=True):
            expected = translator.translate(texts, **chosen)
            assert [one["tokens"] for one in found] == [list(one.tokens) for one in expected]
            assert [one["text"] for one in found] == [one.text for one in expected]
        assert seen["isolated"]
        assert seen["threads"] == threads
        assert seen["errors"] == []


def test_the_default_model_translates_with_the_network_switched_off(default_site: Path, tmp_path: Path) -> None:
    seen = visit(default_site, type=TEXT, offline=True, pictures=str(tmp_path))
    assert seen["typed"] == seen["offline"]["typed"]
    assert seen["typed"].startswith("Bom dia!")
    assert seen["offline"]["isolated"]
    assert len(list(tmp_path.glob("*.png"))) == 4


def test_webgpu_gives_the_tokens_of_python_and_an_emulated_gpu_is_not_chosen(tmp_path: Path) -> None:
    make_site([VECTORS / "inplace"], tmp_path / "site", webgpu=True)
    options = {"num_beams": 2, "max_new_tokens": 3}  # software compiles a shader for each shape, which takes time
    wishes = {"bundle": "bundles/inplace", "texts": ["the old man"], "options": [options]}
    seen = visit(tmp_path / "site", flags=GPU, load={"device": "webgpu"}, **wishes)
    [expected] = Translator(VECTORS / "inplace", threads=1).translate(["the old man"], **options)
    assert [one["tokens"] for one in seen["translations"][0]] == [list(expected.tokens)]
    assert seen["device"] == "webgpu"
    assert "1 thread" in seen["status"]  # of the page, which measures


def test_any_web_server_will_do_and_threads_come_with_the_second_visit(site: Path) -> None:
    seen = visit(site, handler=SimpleHTTPRequestHandler, type=TEXT, offline=True)
    assert seen["typed"] == seen["offline"]["typed"] != ""
    assert not seen["isolated"]
    assert seen["offline"]["isolated"]
    assert seen["errors"] == []


def test_a_browser_keeps_only_the_present_version_of_a_file(site: Path) -> None:
    seen = visit(site, bundle="bundles/inplace", former="weights.bin")
    sha256 = sha256_of(site / "bundles" / "inplace" / "weights.bin")
    kept = [file for file in seen["kept"] if file.startswith("bundles/inplace/weights.bin")]
    assert kept == [f"bundles/inplace/weights.bin?sha256={sha256}"]


def test_a_changed_file_is_refused_in_one_sentence(copied: Path) -> None:
    weights = copied / "bundles" / "inplace" / "weights.bin"
    content = bytearray(weights.read_bytes())
    content[50] ^= 1
    weights.write_bytes(content)
    weights.with_name("weights.bin.gz").unlink(missing_ok=True)
    seen = visit(copied)
    assert seen["failed"]
    assert seen["status"] == (
        "weights.bin is not the file that was exported (its sha256 differs): copy the bundle again."
    )


def test_a_missing_file_is_refused_in_one_sentence(copied: Path) -> None:
    for path in (copied / "bundles" / "inplace").glob("decoder.onnx*"):
        path.unlink()
    seen = visit(copied)
    assert seen["failed"]
    assert seen["status"].endswith("decoder.onnx cannot be loaded: the server answered 404.")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda manifest: manifest.update(format_version=2),
            "The bundle has format version 2, but this page reads version 1; "
            "make the site again with a newer seq2edge.",
        ),
        (
            lambda manifest: manifest["tokenizer"].update(kind="runes"),
            "The bundle has a vocabulary of the kind 'runes', which is not known here.",
        ),
        (lambda manifest: manifest.pop("rights"), "manifest.json is not valid: manifest lacks the key 'rights'."),
    ],
    ids=["newer format", "unknown vocabulary", "incomplete manifest"],
)
def test_a_bundle_that_the_page_cannot_use_is_refused_in_one_sentence(
    copied: Path, change: Change, sentence: str
) -> None:
    edit_manifest(copied, "inplace", change)
    seen = visit(copied)
    assert seen["failed"]
    assert seen["status"] == sentence


def edit_manifest(site: Path, bundle: str, change: Change) -> None:
    """Change a manifest of a site, and its hash."""
    path, index = site / "bundles" / bundle / "manifest.json", site / "site.json"
    manifest, content = json.loads(path.read_text()), json.loads(index.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    content["files"][path.relative_to(site).as_posix()]["sha256"] = sha256_of(path)
    index.write_text(json.dumps(content))


def test_a_browser_without_webassembly_is_told_so(copied: Path) -> None:
    worker = copied / "src" / "worker.mjs"
    worker.write_text(worker.read_text() + "\ndelete globalThis.WebAssembly;\n")
    seen = visit(copied)
    assert seen["status"] == "This browser has no WebAssembly, which translating needs."


def test_a_browser_without_enough_memory_is_told_so(default_site: Path) -> None:
    seen = visit(default_site, flags=["--disable-gpu", f"--js-flags=--wasm-max-mem-pages={FEW_PAGES}"])
    assert seen["failed"]
    assert seen["status"] == (
        "The browser has not enough memory for this model: close other pages, or use a smaller one."
    )


def test_the_tests_of_node_pass() -> None:
    done = subprocess.run(["npm", "test"], cwd=JAVASCRIPT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_types_are_right() -> None:
    done = subprocess.run(["npm", "run", "check"], cwd=JAVASCRIPT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
