"""Change the files of a bundle and update its hashes, as an attacker could."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import EMBEDDED


def copy_bundle(folder: Path, source: Path = EMBEDDED) -> Path:
    return Path(shutil.copytree(source, folder))


def rehash(folder: Path) -> None:
    """Update the hashes and sizes in the manifest."""
    path = folder / tensor_names.MANIFEST
    content = json.loads(path.read_text(encoding="utf-8"))
    for name in content["files"]:
        data = (folder / name).read_bytes()
        content["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    path.write_text(json.dumps(content), encoding="utf-8")


def change_graph(folder: Path, change: Callable[[onnx.ModelProto], object], name: str = tensor_names.DECODER) -> None:
    model = onnx.load(folder / name, load_external_data=False)
    change(model)
    (folder / name).write_bytes(model.SerializeToString())
    rehash(folder)


def change_manifest(folder: Path, change: Callable[[dict], object]) -> None:
    path = folder / tensor_names.MANIFEST
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
