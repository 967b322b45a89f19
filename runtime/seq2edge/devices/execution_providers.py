"""The providers that onnxruntime has, built in or as plugins, and what keeps one from working.

Which shared libraries of CUDA and cuDNN a provider needs, and which of them are there.
"""

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
from seq2edge.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from onnxruntime import OrtEpDevice, SessionOptions

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


RUNTIMES = (  # packages that bring the module, each with other providers built in
    *("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-webgpu", "onnxruntime-directml"),
)
_lock = Lock()
_registered: dict[str, str] = {}  # plugins, and why each could not be registered, if so


def load_onnxruntime() -> Any:
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise MissingExtraError("onnxruntime", "cpu") from None
    return onnxruntime


def runtime_release() -> str:
    """The package of onnxruntime that is installed, and its release."""
    runtime = load_onnxruntime()
    name = next((package for package in RUNTIMES if _is_there(package)), "onnxruntime")
    return f"{name} {runtime.__version__}"


def _is_there(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version  # which bring 3 MB

    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def is_built_in(device: Device) -> bool:
    """Whether onnxruntime itself brings the provider; one that a plugin has brought is listed too."""
    return device.plugin not in _registered and device.provider in load_onnxruntime().get_available_providers()


def is_installed(device: Device) -> bool:
    """Whether the provider is there, which does not mean that it works."""
    return is_built_in(device) or bool(device.plugin and find_spec(device.plugin))


def add_provider(options: "SessionOptions", device: Device, settings: dict[str, str]) -> list[Any] | None:
    """Let sessions with these options compute on a device; gives the providers that a session is to be made with."""
    if device is not CPU:
        load_onnxruntime().set_default_logger_severity(4)  # what goes wrong is said in one sentence
    if is_built_in(device):
        _preload(device)
        return [(device.provider, settings)]
    found = plugin_devices(device, settings)
    options.add_provider_for_devices(found[:1], {k: v for k, v in settings.items() if k != "device_type"})
    return None  # the options know it


def plugin_devices(device: Device, settings: dict[str, str]) -> list["OrtEpDevice"]:
    """What a plugin offers on this machine; an error says what is missing."""
    runtime = load_onnxruntime()
    if not device.plugin or find_spec(device.plugin) is None:
        raise UsageError(
            f"the device {device.name!r} needs onnxruntime's {device.provider}, which is not installed: "
            f"{device.install}"
        )
    problem = _register(device.plugin)
    if problem:
        raise UsageError(f"the plugin {device.plugin} of the device {device.name!r} cannot be loaded ({problem})")
    found = [one for one in runtime.get_ep_devices() if one.ep_name == device.provider]
    wanted = settings.get("device_type", "").split(".")[0]
    fitting = [one for one in found if one.ep_metadata.get("ov_device", wanted).split(".")[0] == wanted or not wanted]
    if not fitting:
        raise UsageError(
            f"the plugin {device.plugin} of the device {device.name!r} finds nothing to compute on here: "
            f"it wants {device.wants}"
        )
    return fitting


def why_not(device: Device) -> str:
    """What a provider that is built in lacks when onnxruntime cannot use it."""
    missing = missing_libraries(device.provider)
    if missing:
        return f"{', '.join(missing)} cannot be loaded"
    return f"it wants {device.wants}"


def _register(plugin: str) -> str:
    """Make a plugin known to onnxruntime once; gives why it cannot be, if so."""
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
    """Load CUDA's libraries from Python packages where they were installed so, as onnxruntime's manual has it."""
    runtime = load_onnxruntime()
    if device.memory == "cuda" and hasattr(runtime, "preload_dlls"):
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it cannot find; why_not says it
            runtime.preload_dlls()
