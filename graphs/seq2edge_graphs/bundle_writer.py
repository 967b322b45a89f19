"""Write the files of a bundle: graphs with shared weights, and the manifest that describes them."""

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

ALIGNMENT = 64  # a cache line, so that a memory-mapped tensor can be used in place
CHUNK_BYTES = 2**22
INLINE_BYTES = 256  # smaller tensors (shapes, axes, scalars) stay in the graph, where shape inference sees them


def save_sharing_weights(graphs: Mapping[Path, ir.Model], weights: Path) -> None:
    """Write each graph to its path and the large tensors of all graphs to ``weights``.

    Tensors with the same bytes are stored once, whatever their names and graphs. They may be read from the file that
    ``weights`` replaces: it is replaced only after all of them have been written.
    """
    with replaced_file(weights) as new, new.open("wb") as file:
        offsets: dict[bytes, tuple[int, int]] = {}
        for model in graphs.values():
            for value in model.graph.initializers.values():
                _store_externally(value, file, offsets, weights)
    for path, model in graphs.items():
        ir.save(model, path)


def load_with_weights(path: Path) -> ir.Model:
    """Load a graph with its large tensors memory-mapped from the weights file in the same folder.

    onnx-ir itself refuses a weights file with several hard links, which some installers create.
    """
    model = ir.load(path)
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if isinstance(tensor, ir.ExternalTensor):
            file, shape = path.parent / tensor.location, tuple(tensor.shape.numpy())
            content = np.memmap(file, tensor.dtype.numpy(), "r", offset=tensor.offset or 0, shape=shape)
            value.const_value = ir.Tensor(content, dtype=tensor.dtype, name=value.name)
    return model


def digest(tensor: ir.TensorProtocol) -> bytes:
    """Return the SHA-256 of the bytes of a tensor."""
    sha256 = hashlib.sha256()
    for chunk in _chunks(tensor):
        sha256.update(chunk)
    return sha256.digest()


def _store_externally(value: ir.Value, file: BinaryIO, offsets: dict[bytes, tuple[int, int]], weights: Path) -> None:
    tensor = value.const_value
    if tensor is None or tensor.nbytes < INLINE_BYTES:
        return
    key = digest(tensor)
    if key not in offsets:
        file.write(b"\0" * (-file.tell() % ALIGNMENT))
        start = file.tell()
        file.writelines(_chunks(tensor))
        offsets[key] = start, file.tell() - start
    offset, length = offsets[key]
    shape = ir.Shape(tensor.shape.numpy())
    value.const_value = ir.ExternalTensor(
        weights.name, offset, length, tensor.dtype, shape=shape, name=str(value.name), base_dir=weights.parent
    )


def _chunks(tensor: ir.TensorProtocol) -> Iterator[bytes]:
    """Yield the bytes of a tensor a few rows at a time, so that a view of a model's weights is never copied whole."""
    if tensor.dtype.bitwidth < 8 or not tensor.shape or not tensor.size:
        yield tensor.tobytes()
        return
    content = tensor.numpy()
    rows = max(1, CHUNK_BYTES * len(content) // tensor.nbytes)
    for start in range(0, len(content), rows):
        yield ir.Tensor(content[start : start + rows], dtype=tensor.dtype).tobytes()


def describe_files(folder: Path) -> dict[str, FileEntry]:
    """Return the hash and the size of every file in the folder except the manifest."""
    paths = sorted(path for path in folder.iterdir() if path.name != tensor_names.MANIFEST)
    return {path.name: FileEntry(sha256=sha256_of(path), size=path.stat().st_size) for path in paths}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    text = json.dumps(asdict(manifest), indent=2, ensure_ascii=False)
    (folder / tensor_names.MANIFEST).write_text(text + "\n", encoding="utf-8")


def check_target(target: Path, *, force: bool, source: Path | None = None) -> None:
    """Refuse a target that is not a bundle already, or whose replacement would delete the checkpoint."""
    if target.name in ("", ".."):
        raise UsageError(f"{target} is not a name for a new folder")
    if source is not None and source.resolve().is_relative_to(target.resolve()):
        raise UsageError(f"{target} contains the checkpoint; choose another folder for the bundle")
    if target.is_symlink():
        raise UsageError(f"{target} is a symbolic link; name the folder itself")
    if not target.exists():
        return
    if not force:
        raise UsageError(f"{target} already exists; use --force to replace it")
    if not target.is_dir() or (any(target.iterdir()) and not (target / tensor_names.MANIFEST).is_file()):
        raise UsageError(f"{target} is not a bundle, so --force does not replace it; choose another name")
