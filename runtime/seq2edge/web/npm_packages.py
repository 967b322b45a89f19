"""Fetch pinned JavaScript libraries from npm, once for all sites of a user."""

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.errors import DataError, UsageError

TIMEOUT = 600  # seconds


@dataclass(frozen=True, kw_only=True)
class NpmPackage:
    """A release of a package, the hash of its archive, and the files that a site needs of it."""

    name: str
    version: str
    sha512: str  # base64, as npm shows it under dist.integrity
    files: tuple[str, ...]

    @property
    def archive(self) -> str:
        return f"{self.name.replace('/', '-').lstrip('@')}-{self.version}.tgz"


ONNXRUNTIME = NpmPackage(
    name="onnxruntime-web",
    version="1.30.0",
    sha512="q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ==",
    files=("dist/ort.wasm.bundle.min.mjs", "dist/ort-wasm-simd-threaded.wasm"),
)
WEBGPU = replace(ONNXRUNTIME, files=("dist/ort.webgpu.bundle.min.mjs", "dist/ort-wasm-simd-threaded.asyncify.wasm"))
TOKENIZERS = NpmPackage(  # only for bundles with a tokenizer.json
    name="@huggingface/tokenizers",
    version="0.2.0",
    sha512="LidMHe1FpcSYH4vcSjXooda34pC0M8m1gmDOv7SQi6Iv+ib1zX7J3sHBCC9/3FPCkn2k1b55FneVqMRxrr99pg==",
    files=("dist/tokenizers.min.mjs",),
)


def extract_files(package: NpmPackage, target: Path) -> None:
    """Write the files of a package to a folder."""
    archive = _cache_folder() / package.archive
    if not archive.is_file() or not _is_genuine(archive, package):
        _download(package, archive)
    with tarfile.open(archive) as content:
        for name in package.files:
            member = content.extractfile(f"package/{name}")
            assert member is not None
            with (target / Path(name).name).open("wb") as file:
                shutil.copyfileobj(member, file)


def _download(package: NpmPackage, archive: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise UsageError(
            f"a site needs {package.name} {package.version}, which npm fetches, but npm was not found: install Node.js"
        )
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", "--silent", "--pack-destination", folder, f"{package.name}@{package.version}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            raise DataError(f"npm did not fetch {package.name} within {TIMEOUT} seconds; try again") from None
        found = Path(folder) / package.archive
        if done.returncode or not found.is_file():
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise DataError(f"npm could not fetch {package.name} {package.version} ({reason})")
        if not _is_genuine(found, package):
            raise DataError(f"npm fetched another {package.name} {package.version} than expected (its sha512 differs)")
        with replaced_file(archive) as new:
            shutil.copyfile(found, new)


def _is_genuine(archive: Path, package: NpmPackage) -> bool:
    return _sha512(archive) == package.sha512


def _sha512(path: Path) -> str:
    with path.open("rb") as file:
        return base64.b64encode(hashlib.file_digest(file, "sha512").digest()).decode()


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seq2edge" / "npm"
