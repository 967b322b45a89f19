"""Write a bundle's manifest, naming every file that the folder holds; needs nothing."""

import json
from dataclasses import asdict
from pathlib import Path

from seq2edge import names
from seq2edge.bundle import FileEntry, Manifest
from seq2edge.files import sha256_of


def describe_files(folder: Path) -> dict[str, FileEntry]:
    """Hash and size of every file in the folder but the manifest itself."""
    paths = sorted(path for path in folder.iterdir() if path.name != names.MANIFEST)
    return {path.name: FileEntry(sha256=sha256_of(path), size=path.stat().st_size) for path in paths}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    text = json.dumps(asdict(manifest), indent=2, ensure_ascii=False)
    (folder / names.MANIFEST).write_text(text + "\n", encoding="utf-8")
