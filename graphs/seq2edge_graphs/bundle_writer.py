"""Write graphs so that every tensor is on disk once, in one file that they share, and read them.

Write a bundle's manifest, naming every file that the folder holds.

Where a bundle may be written: nothing that is not a bundle is ever replaced.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx_ir as ir

from seq2edge.bundle import tensor_names
from seq2edge.bundle.atomic_files import replaced_file, sha256_of
from seq2edge.bundle.bundle import FileEntry, Manifest
from seq2edge.errors import UsageError

ALIGNMENT = 64  # a cache line, so that a memory-mapped tensor can be used where it lies
PIECE_BYTES = 2**22
INLINE_BYTES = 256  # smaller tensors (shapes, axes, scalars) stay in the graph, where shape inference sees them


def save_sharing_weights(graphs: Mapping[Path, ir.Model], weights: Path) -> None:
    """Write each graph to its path, and the large tensors of all of them to ``weights``.

    Tensors with the same bytes are stored once, whatever their names and graphs. They may come from a file of the same
    name, which is replaced when all of them were read.
    """
    with replaced_file(weights) as new, new.open("wb") as file:
        places: dict[bytes, tuple[int, int]] = {}
        for model in graphs.values():
            for value in model.graph.initializers.values():
                _move(value, file, places, weights)
    for path, model in graphs.items():
        ir.save(model, path)


def load_with_weights(path: Path) -> ir.Model:
    """Read a graph, its large tensors mapped from the file beside it.

    onnx-ir itself refuses a file that has more than one name, which is what some installers give to what they install.
    """
    model = ir.load(path)
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if isinstance(tensor, ir.ExternalTensor):
            place, shape = path.parent / tensor.location, tuple(tensor.shape.numpy())
            content = np.memmap(place, tensor.dtype.numpy(), "r", offset=tensor.offset or 0, shape=shape)
            value.const_value = ir.Tensor(content, dtype=tensor.dtype, name=value.name)
    return model


def digest(tensor: ir.TensorProtocol) -> bytes:
    """What tells contents apart."""
    found = hashlib.sha256()
    for piece in _pieces(tensor):
        found.update(piece)
    return found.digest()


def _move(value: ir.Value, file: BinaryIO, places: dict[bytes, tuple[int, int]], weights: Path) -> None:
    tensor = value.const_value
    if tensor is None or tensor.nbytes < INLINE_BYTES:
        return
    key = digest(tensor)
    if key not in places:
        file.write(b"\0" * (-file.tell() % ALIGNMENT))
        start = file.tell()
        file.writelines(_pieces(tensor))
        places[key] = start, file.tell() - start
    offset, length = places[key]
    shape = ir.Shape(tensor.shape.numpy())
    value.const_value = ir.ExternalTensor(
        weights.name, offset, length, tensor.dtype, shape=shape, name=str(value.name), base_dir=weights.parent
    )


def _pieces(tensor: ir.TensorProtocol) -> Iterator[bytes]:
    """The bytes of a tensor, a few rows at a time: most are views of what a model holds, and no copy is made of all."""
    if tensor.dtype.bitwidth < 8 or not tensor.shape or not tensor.size:
        yield tensor.tobytes()
        return
    content = tensor.numpy()
    rows = max(1, PIECE_BYTES * len(content) // tensor.nbytes)
    for start in range(0, len(content), rows):
        yield ir.Tensor(content[start : start + rows], dtype=tensor.dtype).tobytes()


def describe_files(folder: Path) -> dict[str, FileEntry]:
    """Hash and size of every file in the folder but the manifest itself."""
    paths = sorted(path for path in folder.iterdir() if path.name != tensor_names.MANIFEST)
    return {path.name: FileEntry(sha256=sha256_of(path), size=path.stat().st_size) for path in paths}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    text = json.dumps(asdict(manifest), indent=2, ensure_ascii=False)
    (folder / tensor_names.MANIFEST).write_text(text + "\n", encoding="utf-8")


def check_target(target: Path, *, force: bool, source: Path | None = None) -> None:
    """Refuse a place where something else is, or where the checkpoint itself would be lost."""
    if target.name in ("", ".."):
        raise UsageError(f"{target} is no name for a new folder")
    if source is not None and source.resolve().is_relative_to(target.resolve()):
        raise UsageError(f"{target} holds the checkpoint; choose another place for the bundle")
    if target.is_symlink():
        raise UsageError(f"{target} is a link; name the folder itself")
    if not target.exists():
        return
    if not force:
        raise UsageError(f"{target} exists already; give --force to replace it")
    if not target.is_dir() or (any(target.iterdir()) and not (target / tensor_names.MANIFEST).is_file()):
        raise UsageError(f"{target} is not a bundle, so --force does not replace it; choose another name")
