"""Which shared libraries of CUDA and cuDNN a provider needs, and which of them are there; needs nothing."""

import ctypes
import mmap
import struct
import sys
from importlib.util import find_spec
from pathlib import Path

FILES = {
    "CUDAExecutionProvider": "libonnxruntime_providers_cuda.so",
    "TensorrtExecutionProvider": "libonnxruntime_providers_tensorrt.so",
}
DRIVER, CUDNN = "libcuda.so.1", "libcudnn.so.9"  # the driver of a GPU; cuDNN, which only some operators need
NVIDIA = ("libcu", "libnv")
DYNAMIC, NEEDED = 6, 1  # numbers of the ELF format: the section with what a file needs, and an entry of it
SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size


def cuda_libraries(provider: str = "CUDAExecutionProvider") -> dict[str, bool]:
    """Whether each library that a provider needs, and cuDNN, can be loaded; none where the provider is no file here."""
    return {name: _loads(name) for name in dict.fromkeys((*_needed_by(provider), CUDNN))} if _file(provider) else {}


def missing_libraries(provider: str) -> list[str]:
    """Those without which the provider cannot work."""
    return [name for name in _needed_by(provider) if not _loads(name)]


def _needed_by(provider: str) -> list[str]:
    file = _file(provider)
    if file is None:
        return []
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return list(dict.fromkeys((DRIVER, *(name for name in needed(content) if name.startswith(NVIDIA)))))


def _file(provider: str) -> Path | None:
    found = find_spec("onnxruntime")
    if provider not in FILES or found is None or found.origin is None or sys.platform != "linux":
        return None
    file = Path(found.origin).parent / "capi" / FILES[provider]
    return file if file.is_file() else None


def needed(content: bytes | mmap.mmap) -> list[str]:
    """The libraries that a shared library of 64 bits names as needed."""
    (first,) = struct.unpack_from("<Q", content, 0x28)
    size, count = struct.unpack_from("<HH", content, 0x3A)
    sections = [SECTION.unpack_from(content, first + number * size) for number in range(count)]
    names: list[str] = []
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind == DYNAMIC:
            strings = sections[link][4]  # where the texts stand that entries point into
            entries = (struct.unpack_from("<qQ", content, place) for place in range(offset, offset + length, 16))
            names += [_text(content, strings + value) for tag, value in entries if tag == NEEDED]
    return names


def _text(content: bytes | mmap.mmap, start: int) -> str:
    return content[start : content.find(b"\0", start)].decode()


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
