"""Open onnxruntime sessions for a device, run them, and bind arrays to them for many runs."""

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.devices.execution_providers import add_provider, load_onnxruntime, missing_requirement
from seq2edge.devices.interruption import run_options, time_limit_error
from seq2edge.devices.memory import arena, release_pages
from seq2edge.devices.registry import CPU, HOST, Device, DeviceConfig, provider_options
from seq2edge.errors import BundleError, Seq2EdgeError, UsageError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, IOBinding, SessionOptions

Array = NDArray[Any]
Tensor = Any  # an array, or an OrtValue in the memory of the device
CPU_CONFIG = DeviceConfig()
# Operators that our graphs use for shapes, indices and token ids, which onnxruntime deliberately keeps on the CPU.
# Where they compute states, they run on the device, since every provider supports them.
SHAPE_OPERATORS = {
    *("Shape", "Size", "Squeeze", "Unsqueeze", "Concat", "Slice", "Gather", "Range", "Reshape", "Cast"),
    *("Add", "Sub", "Mul", "LessOrEqual"),
}


def open_session(
    path: Path, *, threads: int, device_config: DeviceConfig = CPU_CONFIG, content: bytes | None = None
) -> "InferenceSession":
    """Load a graph for a device; falling back to another one is an error.

    ``content`` is loaded instead of what the file contains by now, with the weights next to the file. Not every
    provider finds them without the file, so for other devices than the CPU the file must still have this content.
    """
    runtime, device = load_onnxruntime(), device_config.kind
    options = _options(threads)
    if device is not CPU:
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if content is not None and device is not CPU:
        if path.read_bytes() != content:
            raise BundleError(f"{path} has changed since it was checked; load the bundle again")
        content = None
    if content is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
    providers = add_provider(options, device, provider_options(device_config, threads))
    try:
        with arena(options):
            session = runtime.InferenceSession(
                path if content is None else content,
                options,
                providers=providers,
                enable_fallback=0,
                disabled_optimizers=slow_fusions(device),
            )
    except Seq2EdgeError:
        raise
    except Exception as error:  # onnxruntime's errors have no common class
        if device is CPU:
            release = runtime.__version__
            raise BundleError(f"{path} cannot be loaded by onnxruntime {release} ({_first_line(error)})") from None
        raise UsageError(
            f"the device {device.name!r} cannot run {path}: {missing_requirement(device)} ({_first_line(error)})"
        ) from None
    if device.provider not in session.get_providers():  # onnxruntime falls back to the CPU
        raise UsageError(f"the device {device.name!r} cannot be used here: {missing_requirement(device)}")
    if device_config.strict:
        _check_strict(session, path, device_config)
    release_pages(path.with_name(tensor_names.WEIGHTS))
    return session


def run(
    session: "InferenceSession", feed: dict[str, Any], names: list[str] | None = None, *, releasing: bool = False
) -> list[Any]:
    """Run a graph and return the named outputs, by default all; ``releasing`` gives its idle memory back."""
    try:
        outputs: list[Any] = session.run(names, feed, run_options(releasing=releasing))
    except Exception as error:  # onnxruntime's errors have no common class
        raise _run_error(error) from None
    return outputs


def run_bound(session: "InferenceSession", binding: "IOBinding", *, releasing: bool = False) -> None:
    """Run a graph with bound inputs and outputs; ``releasing`` gives its idle memory back."""
    try:
        session.run_with_iobinding(binding, run_options(releasing=releasing))
    except Exception as error:  # onnxruntime's errors have no common class
        raise _run_error(error) from None


def run_on_device(
    session: "InferenceSession", inputs: Mapping[str, Tensor], *, memory: str, fetched: Collection[str] = ()
) -> dict[str, Tensor]:
    """Run a graph and return its outputs by name: ``fetched`` ones as arrays, all others in the memory of the device.

    Input arrays are copied to the device; tensors that are already there are not. On the host all tensors are arrays,
    and IO binding is not used, because binding every call would take a third of the time of a small model.
    """
    names = [output.name for output in session.get_outputs()]
    if memory == HOST:
        return dict(zip(names, run(session, dict(inputs)), strict=True))
    binding = session.io_binding()
    for name, value in inputs.items():
        bind = binding.bind_cpu_input if isinstance(value, np.ndarray) else binding.bind_ortvalue_input
        bind(name, value)
    for name in names:
        binding.bind_output(name, HOST if name in fetched else memory)
    run_bound(session, binding)
    outputs = zip(names, binding.get_outputs(), strict=True)
    return {name: value.numpy() if name in fetched else value for name, value in outputs}


def slow_fusions(device: Device = CPU) -> list[str]:
    """Return the optimizers of onnxruntime that make graphs slower on a device.

    On a CPU, SkipLayerNormalization takes up to six times as long as the Add and LayerNormalization that it replaces
    (``benchmarks/fused_operators.py``). Without it, the base model in float32 was 5 to 9 % faster.
    """
    return ["SkipLayerNormFusion"] if device is CPU else []


def nodes_on_other_providers(
    session: "InferenceSession", device_config: DeviceConfig
) -> dict[str, Counter[str]] | None:
    """Count the nodes that other providers run, by provider and operator; None if onnxruntime does not report it."""
    if device_config.kind is CPU:  # runs all nodes
        return {}
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    nodes: dict[str, Counter[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        if part.ep_name != device_config.kind.provider:
            nodes.setdefault(part.ep_name, Counter()).update(node.op_type for node in part.get_nodes())
    return nodes


def compute_nodes(operators: Counter[str]) -> Counter[str]:
    """Return the operators that compute states, not shapes and indices."""
    return Counter({name: count for name, count in operators.items() if name not in SHAPE_OPERATORS})


def _check_strict(session: "InferenceSession", path: Path, device_config: DeviceConfig) -> None:
    nodes = nodes_on_other_providers(session, device_config)
    if nodes is None:
        raise UsageError(
            "this onnxruntime does not report where nodes run: install 1.24 or newer, or leave out --strict-device"
        )
    for provider, operators in nodes.items():
        computing = compute_nodes(operators)
        if computing:
            listed = ", ".join(f"{name} {count}" for name, count in computing.most_common())
            raise UsageError(
                f"{provider} instead of {device_config.device} would run nodes of {path}: {listed}; "
                "use another bundle, or leave out --strict-device"
            )


def _options(threads: int) -> "SessionOptions":
    options = load_onnxruntime().SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors are raised as exceptions
    options.enable_mem_pattern = False  # shapes change with every step
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # spinning slows down a busy machine
    return options


def _run_error(error: Exception) -> Seq2EdgeError:
    return time_limit_error() or BundleError(f"onnxruntime could not run the graph ({_first_line(error)})")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


class BoundRun:
    """Run a graph on the same arrays again and again; only their content changes.

    An array that is bound to an input and an output is changed in place.
    """

    def __init__(
        self, session: "InferenceSession", inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
    ) -> None:
        from onnxruntime import OrtValue

        self.session = session
        self.binding = session.io_binding()
        values = {id(array): OrtValue.ortvalue_from_numpy(array) for array in outputs.values()}
        for name, array in inputs.items():
            if id(array) in values:
                self.binding.bind_ortvalue_input(name, values[id(array)])
            else:
                self.binding.bind_cpu_input(name, array)  # faster than making a value first
        for name, array in outputs.items():
            self.binding.bind_ortvalue_output(name, values[id(array)])
        self.kept = inputs, outputs, values  # onnxruntime does not keep the memory alive

    def __call__(self, *, releasing: bool = False) -> None:
        run_bound(self.session, self.binding, releasing=releasing)
