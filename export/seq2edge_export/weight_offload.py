"""Let the weights of a model rest in a file, so that they take memory only while they are used.

Make the C library give freed memory back to the system.
"""

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

MMAP_THRESHOLD = -3  # glibc's number of that setting
LARGE = 2**20  # bytes


def give_back_large_blocks() -> None:
    """From now on, give every large block to the system when it is freed.

    glibc raises the limit as it meets larger blocks, and then keeps them: caches that grow step by step leave holes
    that are never used again. Call it before anything is loaded; blocks that were taken before stay as they are.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE)


def give_back_memory() -> None:
    """Give back what has been freed so far."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


ALIGNMENT = 64  # bytes; what vector instructions like


@contextmanager
def offloaded(graphs: GraphModules) -> Iterator[Callable[[], None]]:
    """Move the weights to a temporary file that is mapped into memory; give what to call when they may leave it.

    The system reads them again when they are used, here and after. Only for a model that nobody else has a hold of.
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

        def rest() -> None:
            if hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED)
            give_back_memory()

        rest()
        yield rest


def _weights(graphs: GraphModules) -> list[Tensor]:
    """Every tensor of the model, and of the one that was traced, once."""
    both = (graphs, graphs.traced) if graphs.traced else (graphs,)
    modules = [module for one in both for module in (one.encoder, one.decoder)]
    tensors = [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]
    return list({id(tensor): tensor for tensor in tensors if tensor.numel()}.values())


def _write(file: BinaryIO, tensor: Tensor) -> int:
    """Where in the file the tensor is."""
    offset = -(-file.tell() // ALIGNMENT) * ALIGNMENT
    file.seek(offset)
    file.write(tensor.detach().reshape(-1).view(torch.uint8).numpy().data)
    return offset
