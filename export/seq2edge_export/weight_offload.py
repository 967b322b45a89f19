"""Offload the weights of a model to a memory-mapped file, and return freed memory to the system."""

import ctypes
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import torch
from torch import Tensor

from seq2edge_export.tracing.graph_modules import GraphModules

ALIGNMENT = 64  # bytes, for vector instructions
MMAP_THRESHOLD = -3  # glibc's number of that mallopt parameter
LARGE_BLOCK = 2**20  # bytes


@contextmanager
def offload_weights(graphs: GraphModules) -> Iterator[Callable[[], None]]:
    """Move the weights to a temporary file that is mapped into memory; yield a function that releases that memory.

    The system reads the weights again when they are used, also afterwards. No one else may use the model.
    """
    tensors = _weights(graphs)
    with TemporaryDirectory(prefix="seq2edge-", ignore_cleanup_errors=True) as folder:  # Windows keeps mapped files
        with (Path(folder) / "weights").open("w+b") as file:
            offsets = [_write(file, tensor) for tensor in tensors]
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        for tensor, offset in zip(tensors, offsets, strict=True):
            content = torch.frombuffer(mapped, dtype=tensor.dtype, count=tensor.numel(), offset=offset)
            tensor.data = content.view(tensor.shape)

        def release() -> None:
            if hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED)
            _trim_heap()

        release()
        yield release


def release_large_blocks() -> None:
    """Make the C library return every large block to the system as soon as it is freed.

    glibc raises its limit when larger blocks are freed, and then keeps them: caches that grow step by step leave holes
    that are never used again. Call this before a model is loaded; it does not affect existing blocks.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE_BLOCK)


def _trim_heap() -> None:
    """Return memory that has been freed so far to the system."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _weights(graphs: GraphModules) -> list[Tensor]:
    """Return every tensor of the reference and of the traced model once."""
    modules = [module for model in (graphs.reference, graphs.traced) for module in (model.encoder, model.decoder)]
    tensors = [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]
    return list({id(tensor): tensor for tensor in tensors if tensor.numel()}.values())


def _write(file: BinaryIO, tensor: Tensor) -> int:
    """Return the offset of the tensor in the file."""
    offset = -(-file.tell() // ALIGNMENT) * ALIGNMENT
    file.seek(offset)
    file.write(tensor.detach().reshape(-1).view(torch.uint8).numpy().data)
    return offset
