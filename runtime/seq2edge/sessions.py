"""onnxruntime sessions of a bundle; needs onnxruntime when one is opened."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2edge.errors import BundleError, MissingExtraError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


def run(session: "InferenceSession", feed: dict[str, Any]) -> list[Any]:
    """All outputs of a graph."""
    try:
        outputs: list[Any] = session.run(None, feed)
    except Exception as error:  # onnxruntime's errors have no common class
        raise BundleError(f"onnxruntime could not run the graph ({_first_line(error)})") from None
    return outputs


def open_session(path: Path, *, threads: int) -> "InferenceSession":
    """Load a graph for the CPU."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise MissingExtraError("onnxruntime", "cpu") from None

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors come as exceptions too
    options.enable_mem_pattern = False  # shapes change with every step
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # spinning starves a busy machine
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common class
        release = onnxruntime.__version__
        raise BundleError(f"{path} cannot be loaded by onnxruntime {release} ({_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
