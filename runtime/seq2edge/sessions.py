"""onnxruntime sessions of a bundle; needs onnxruntime when one is opened."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seq2edge.errors import BundleError, MissingExtraError, Seq2EdgeError, UsageError
from seq2edge.memory_limit import arena

Device = Literal["cpu", "cuda"]
PROVIDERS: dict[str, str] = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, IOBinding


def run(session: "InferenceSession", feed: dict[str, Any], wanted: list[str] | None = None) -> list[Any]:
    """The wanted outputs of a graph, or all of them."""
    try:
        outputs: list[Any] = session.run(wanted, feed)
    except Exception as error:  # onnxruntime's errors have no common class
        raise BundleError(f"onnxruntime could not run the graph ({_first_line(error)})") from None
    return outputs


def run_bound(session: "InferenceSession", binding: "IOBinding") -> None:
    """The same with inputs and outputs that are bound to memory."""
    try:
        session.run_with_iobinding(binding)
    except Exception as error:  # onnxruntime's errors have no common class
        raise BundleError(f"onnxruntime could not run the graph ({_first_line(error)})") from None


def open_session(path: Path, *, threads: int, device: Device = "cpu") -> "InferenceSession":
    """Load a graph for a device; that another one would run it is an error."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise MissingExtraError("onnxruntime", "cpu") from None

    provider = _provider(device, onnxruntime.get_available_providers())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors come as exceptions too
    options.enable_mem_pattern = False  # shapes change with every step
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # spinning starves a busy machine
    try:
        with arena(options):
            session = onnxruntime.InferenceSession(path, options, providers=[provider])
    except Seq2EdgeError:
        raise
    except Exception as error:  # onnxruntime's errors have no common class
        release = onnxruntime.__version__
        raise BundleError(f"{path} cannot be loaded by onnxruntime {release} ({_first_line(error)})") from None
    if provider not in session.get_providers():  # onnxruntime falls back to the CPU
        raise UsageError(
            f"the device {device!r} was asked for, but onnxruntime cannot use it; is its driver installed?"
        )
    return session


def _provider(device: Device, available: list[str]) -> str:
    if device not in PROVIDERS:
        raise UsageError(f"there is no device {device!r}; there is {', '.join(PROVIDERS)}")
    provider = PROVIDERS[device]
    if provider not in available:
        raise UsageError(f"the device {device!r} needs onnxruntime's {provider}: run  pip install 'seq2edge[{device}]'")
    return provider


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
