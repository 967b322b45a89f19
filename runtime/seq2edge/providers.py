"""The providers that onnxruntime has, built in or as plugins, and what keeps one from working; needs onnxruntime."""

import contextlib
import importlib
import io
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any

from seq2edge.cuda_libraries import missing_libraries
from seq2edge.devices import CPU, Device
from seq2edge.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from onnxruntime import OrtEpDevice, SessionOptions

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
