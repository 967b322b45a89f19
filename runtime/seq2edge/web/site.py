"""Write a static site that runs bundles in the browser, with the hash of every file."""

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2edge import __version__
from seq2edge.bundle import tensor_names
from seq2edge.bundle.atomic_files import new_folder, sha256_of
from seq2edge.bundle.bundle import Bundle, load_bundle
from seq2edge.errors import BundleError, UsageError
from seq2edge.web.npm_packages import ONNXRUNTIME, TOKENIZERS, WEBGPU, extract_files

SITE = "site.json"  # what the page reads first
SITE_FORMAT = 1
BUNDLES, LIBRARIES, PAGE, SOURCE = "bundles", "libraries", "page", "src"
WORKER = "sw.js"
DEVELOPMENT = '"development"'  # the version in the service worker's source
LARGE, WORTH_COMPRESSING = 10_000, 0.9  # bytes, and share of them; other files are served as they are
LEVEL = 9

# In the wheel the JavaScript is part of this package, in the repository it is a folder next to the Python packages.
_SOURCES = (Path(__file__).parent / "static", Path(__file__).parents[2] / "web")


@dataclass(frozen=True, kw_only=True)
class SiteSummary:
    """What was written."""

    folder: Path
    bundles: tuple[str, ...]
    bytes: int  # that a first visit with the first bundle downloads
    compressed_bytes: int  # the same from a server that sends compressed files


def make_site(
    folders: Sequence[Path],
    target: Path,
    *,
    force: bool = False,
    webgpu: bool = False,
    require_signature: Path | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> SiteSummary:
    """Write a site for these bundles; it appears under its name only when it is complete.

    With ``webgpu`` its page measures whether a visitor's GPU is faster.
    """
    _check_target(target, force=force)
    bundles = [load_bundle(folder, require_signature=require_signature) for folder in folders]
    names = _names(bundles)
    for bundle in bundles:
        _check_supported(bundle)
    with new_folder(target) as folder:
        _copy_page(folder)
        report(f"fetching {ONNXRUNTIME.name} {ONNXRUNTIME.version}")
        _add_libraries(folder / LIBRARIES, bundles, webgpu=webgpu)
        report("copying and compressing")
        for name, bundle in zip(names, bundles, strict=True):
            _copy_bundle(bundle, folder / BUNDLES / name)
        for path in _files(folder):
            compress(path)
        _write_index(folder, names, bundles, device="auto" if webgpu else "wasm")
        return _summary(folder, target, names, bundles[0])


def _check_target(target: Path, *, force: bool) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not target.is_dir() or not (target / SITE).is_file():
        raise UsageError(f"{target} exists and is not a site; choose another folder")
    if not force:
        raise UsageError(f"{target} exists; replace it with --force")


def _names(bundles: Sequence[Bundle]) -> list[str]:
    names = [bundle.folder.resolve().name for bundle in bundles]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"two bundles have the name {twice[0]!r}; rename one of the folders")
    return names


def _check_supported(bundle: Bundle) -> None:
    manifest = bundle.manifest
    reasons = {
        "computes in float16": manifest.precision == "fp16-compute",
        "needs Moses' tokenizer": manifest.tokenizer.moses is not None,
        "samples by default": manifest.generation.do_sample,
    }
    for reason, applies in reasons.items():
        if applies:
            raise BundleError(f"{bundle.folder} {reason}, which the browser's runtime does not support")


def _copy_page(folder: Path) -> None:
    source = next((path for path in _SOURCES if path.is_dir()), None)
    if source is None:
        raise UsageError("the JavaScript of the browser's runtime is not part of this installation; install the wheel")
    shutil.copytree(source / "site", folder, dirs_exist_ok=True)
    for name in (PAGE, SOURCE):
        shutil.copytree(source / name, folder / name)


def _add_libraries(folder: Path, bundles: Sequence[Bundle], *, webgpu: bool) -> None:
    folder.mkdir()
    extract_files(ONNXRUNTIME, folder)
    if webgpu:
        extract_files(WEBGPU, folder)
    if any(bundle.manifest.tokenizer.kind == "tokenizers" for bundle in bundles):
        extract_files(TOKENIZERS, folder)


def _copy_bundle(bundle: Bundle, target: Path) -> None:
    target.mkdir(parents=True)
    for name in (tensor_names.MANIFEST, tensor_names.SIGNATURE, *bundle.manifest.files):
        if (bundle.folder / name).is_file():
            shutil.copyfile(bundle.folder / name, target / name)


def compress(path: Path) -> None:
    """Write a compressed copy next to a file, for servers that send it (gzip_static in nginx), if it is smaller."""
    content = path.read_bytes()
    compressed = gzip.compress(content, LEVEL, mtime=0)
    if len(content) >= LARGE and len(compressed) < WORTH_COMPRESSING * len(content):
        path.with_name(f"{path.name}.gz").write_bytes(compressed)


def _write_index(folder: Path, names: Sequence[str], bundles: Sequence[Bundle], *, device: str) -> None:
    """Write the list of all files with their hashes, and give the service worker its version."""
    worker = folder / WORKER
    files = {path.relative_to(folder).as_posix(): _entry(path) for path in _files(folder) if path != worker}
    version = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    worker.write_text(worker.read_text(encoding="utf-8").replace(DEVELOPMENT, json.dumps(version)), encoding="utf-8")
    content = {
        "format_version": SITE_FORMAT,
        "version": version,
        "tools": {"seq2edge": __version__, ONNXRUNTIME.name: ONNXRUNTIME.version},
        "device": device,
        "bundles": [_describe(name, bundle) for name, bundle in zip(names, bundles, strict=True)],
        "files": {**files, WORKER: _entry(worker)},
    }
    (folder / SITE).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _describe(name: str, bundle: Bundle) -> dict[str, Any]:
    languages = bundle.manifest.languages
    return {
        "path": f"{BUNDLES}/{name}",
        "title": name,
        "source": languages.source,
        "target": languages.target,
        "precision": bundle.manifest.precision,
        "bytes": sum(bundle.manifest.files[one].size for one in _used_files(bundle)),
    }


def _used_files(bundle: Bundle) -> set[str]:
    """Return the files that translating needs, without a scorer and a shortlist."""
    return {tensor_names.ENCODER, tensor_names.DECODER, tensor_names.WEIGHTS, *bundle.manifest.tokenizer.files}


def _entry(path: Path) -> dict[str, Any]:
    return {"sha256": sha256_of(path), "size": path.stat().st_size}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _summary(folder: Path, target: Path, names: Sequence[str], first: Bundle) -> SiteSummary:
    on_use = {folder / LIBRARIES / Path(name).name for name in WEBGPU.files}
    all_files = [path for path in _files(folder) if path.suffix != ".gz" and path not in on_use]
    page = [path for path in all_files if folder / BUNDLES not in path.parents]
    used = _used_files(first) | {tensor_names.MANIFEST}
    downloaded = [*page, *(folder / BUNDLES / names[0] / name for name in used)]
    return SiteSummary(
        folder=target,
        bundles=tuple(names),
        bytes=sum(path.stat().st_size for path in downloaded),
        compressed_bytes=sum(map(_compressed_size, downloaded)),
    )


def _compressed_size(path: Path) -> int:
    compressed = path.with_name(f"{path.name}.gz")
    return (compressed if compressed.is_file() else path).stat().st_size
