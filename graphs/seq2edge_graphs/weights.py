"""Write graphs so that every tensor is on disk once, in one file that they share, and read them; needs onnx-ir."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx_ir as ir

from seq2edge.files import replaced_file

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
