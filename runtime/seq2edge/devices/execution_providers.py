"""Find and load onnxruntime's execution providers, built in or as plugins, and tell why one does not work."""

import contextlib
import ctypes
import importlib
import io
import mmap
import struct
import sys
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from seq2edge.devices.registry import CPU, Device
from seq2edge.errors import UsageError, imports_of_extras

if TYPE_CHECKING:
    from onnxruntime import OrtEpDevice, SessionOptions

RUNTIMES = (  # packages with the module onnxruntime, each with other built-in providers
    *("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-webgpu", "onnxruntime-directml"),
)
FILES = {
    "CUDAExecutionProvider": "libonnxruntime_providers_cuda.so",
    "TensorrtExecutionProvider": "libonnxruntime_providers_tensorrt.so",
}
DRIVER, CUDNN = "libcuda.so.1", "libcudnn.so.9"  # the GPU driver; cuDNN, which only some operators need
NVIDIA = ("libcu", "libnv")
DYNAMIC, NEEDED = 6, 1  # ELF: type of the dynamic section, tag of its entries that name a needed library
SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size

_lock = Lock()
_registered: dict[str, str] = {}  # plugins, with the error if they could not be registered


def load_onnxruntime() -> Any:
    with imports_of_extras():
        import onnxruntime
    return onnxruntime


def runtime_release() -> str:
    """Return the installed package of onnxruntime and its version."""
    runtime = load_onnxruntime()
    name = next((package for package in RUNTIMES if _has_package(package)), "onnxruntime")
    return f"{name} {runtime.__version__}"


def _has_package(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version  # which needs 3 MB

    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def is_built_in(device: Device) -> bool:
    """Return whether the provider is part of onnxruntime, which also lists providers of registered plugins."""
    return device.plugin not in _registered and device.provider in load_onnxruntime().get_available_providers()


def is_installed(device: Device) -> bool:
    """Return whether the provider is installed, which does not mean that it works."""
    return is_built_in(device) or bool(device.plugin and find_spec(device.plugin))


def add_provider(options: "SessionOptions", device: Device, settings: dict[str, str]) -> list[Any] | None:
    """Configure sessions for a device; return the ``providers`` argument of the session."""
    if device is not CPU:
        load_onnxruntime().set_default_logger_severity(4)  # our errors are one sentence
    if is_built_in(device):
        _preload(device)
        return [(device.provider, settings)]
    devices = plugin_devices(device, settings)
    options.add_provider_for_devices(devices[:1], {k: v for k, v in settings.items() if k != "device_type"})
    return None  # it is part of the options


def plugin_devices(device: Device, settings: dict[str, str]) -> list["OrtEpDevice"]:
    """Return the hardware that a plugin can use on this machine."""
    runtime = load_onnxruntime()
    if not device.plugin or find_spec(device.plugin) is None:
        raise UsageError(
            f"the device {device.name!r} needs onnxruntime's {device.provider}, which is not installed: "
            f"{device.install}"
        )
    problem = _register(device.plugin)
    if problem:
        raise UsageError(f"the plugin {device.plugin} of the device {device.name!r} cannot be loaded ({problem})")
    offered = [one for one in runtime.get_ep_devices() if one.ep_name == device.provider]
    hardware = settings.get("device_type", "").split(".")[0]
    matching = [
        one for one in offered if not hardware or one.ep_metadata.get("ov_device", hardware).split(".")[0] == hardware
    ]
    if not matching:
        raise UsageError(
            f"the plugin {device.plugin} of the device {device.name!r} found no suitable hardware: "
            f"it requires {device.requires}"
        )
    return matching


def missing_requirement(device: Device) -> str:
    """Return what a built-in provider that onnxruntime cannot use is missing."""
    missing = missing_libraries(device.provider)
    if missing:
        return f"{', '.join(missing)} cannot be loaded"
    return f"it requires {device.requires}"


def _register(plugin: str) -> str:
    """Register a plugin with onnxruntime once; return the error if that fails, otherwise an empty string."""
    with _lock:
        if plugin not in _registered:
            try:
                library = importlib.import_module(plugin).get_library_path()
                load_onnxruntime().register_execution_provider_library(plugin, library)
                _registered[plugin] = ""
            except Exception as error:  # a plugin may fail in any way
                _registered[plugin] = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return _registered[plugin]


def _preload(device: Device) -> None:
    """Load CUDA's libraries from Python packages if installed there, as onnxruntime's manual recommends."""
    runtime = load_onnxruntime()
    if device.memory == "cuda" and hasattr(runtime, "preload_dlls"):
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it cannot find
            runtime.preload_dlls()


def cuda_libraries(provider: str = "CUDAExecutionProvider") -> dict[str, bool]:
    """Return whether cuDNN and each library that a provider needs can be loaded; empty if it is not installed."""
    return {name: _can_load(name) for name in dict.fromkeys((*_needed_by(provider), CUDNN))} if _file(provider) else {}


def missing_libraries(provider: str) -> list[str]:
    """Return the libraries that the provider needs but that cannot be loaded."""
    return [name for name in _needed_by(provider) if not _can_load(name)]


def _needed_by(provider: str) -> list[str]:
    file = _file(provider)
    if file is None:
        return []
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return list(dict.fromkeys((DRIVER, *(name for name in needed_libraries(content) if name.startswith(NVIDIA)))))


def _file(provider: str) -> Path | None:
    spec = find_spec("onnxruntime")
    if provider not in FILES or spec is None or spec.origin is None or sys.platform != "linux":
        return None
    file = Path(spec.origin).parent / "capi" / FILES[provider]
    return file if file.is_file() else None


def needed_libraries(content: bytes | mmap.mmap) -> list[str]:
    """Return the libraries that a 64-bit ELF shared library lists as needed."""
    (first,) = struct.unpack_from("<Q", content, 0x28)
    size, count = struct.unpack_from("<HH", content, 0x3A)
    sections = [SECTION.unpack_from(content, first + number * size) for number in range(count)]
    names: list[str] = []
    for _, section_type, _, _, offset, length, link, *_ in sections:
        if section_type == DYNAMIC:
            strings = sections[link][4]  # offset of the string table
            entries = (struct.unpack_from("<qQ", content, start) for start in range(offset, offset + length, 16))
            names += [_text(content, strings + value) for tag, value in entries if tag == NEEDED]
    return names


def _text(content: bytes | mmap.mmap, start: int) -> str:
    return content[start : content.find(b"\0", start)].decode()


def _can_load(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
