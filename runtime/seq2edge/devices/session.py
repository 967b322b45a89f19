"""onnxruntime sessions of a bundle.

Tensors that stay where a device has them, from one graph to the next.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.devices.execution_providers import add_provider, load_onnxruntime, why_not
from seq2edge.devices.memory import arena, give_back_pages
from seq2edge.devices.registry import CPU, HOST, Device, DeviceConfig, provider_options
from seq2edge.errors import BundleError, Seq2EdgeError, UsageError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, IOBinding, SessionOptions

CPU_CONFIG = DeviceConfig()
# Operators that compute shapes, indices and token ids in our graphs: onnxruntime computes these on the CPU on purpose,
# wherever the rest is. With numbers of the model in them they would be on the device, which has all of them.
COUNTING = {
    *("Shape", "Size", "Squeeze", "Unsqueeze", "Concat", "Slice", "Gather", "Range", "Reshape", "Cast"),
    *("Add", "Sub", "Mul", "LessOrEqual"),
}


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


def open_session(path: Path, *, threads: int, device_config: DeviceConfig = CPU_CONFIG) -> "InferenceSession":
    """Load a graph for a device; that another one would run it is an error."""
    runtime, device = load_onnxruntime(), device_config.kind
    options = _options(threads)
    if device is not CPU:
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    providers = add_provider(options, device, provider_options(device_config, threads))
    try:
        with arena(options):
            session = runtime.InferenceSession(
                path, options, providers=providers, enable_fallback=0, disabled_optimizers=slow_fusions(device)
            )
    except Seq2EdgeError:
        raise
    except Exception as error:  # onnxruntime's errors have no common class
        if device is CPU:
            release = runtime.__version__
            raise BundleError(f"{path} cannot be loaded by onnxruntime {release} ({_first_line(error)})") from None
        raise UsageError(
            f"the device {device.name!r} cannot run {path}: {why_not(device)} ({_first_line(error)})"
        ) from None
    if device.provider not in session.get_providers():  # onnxruntime falls back to the CPU
        raise UsageError(f"the device {device.name!r} cannot be used here: {why_not(device)}")
    if device_config.strict:
        _check_strict(session, path, device_config)
    give_back_pages(path.with_name(tensor_names.WEIGHTS))
    return session


def slow_fusions(device: Device = CPU) -> list[str]:
    """Optimizers of onnxruntime that make graphs slower there.

    On a CPU, SkipLayerNormalization takes up to six times as long as the Add and the LayerNormalization that it is made
    of (``benchmarks/fused_operators.py``). Without it, the base model in float32 was 5 to 9 % faster.
    """
    return ["SkipLayerNormFusion"] if device is CPU else []


def nodes_on_other_providers(
    session: "InferenceSession", device_config: DeviceConfig
) -> dict[str, Counter[str]] | None:
    """The nodes that other providers than the device's run, by provider and operator; None where nobody can tell."""
    if device_config.kind is CPU:  # there is no other
        return {}
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    found: dict[str, Counter[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        if part.ep_name != device_config.kind.provider:
            found.setdefault(part.ep_name, Counter()).update(node.op_type for node in part.get_nodes())
    return found


def compute_nodes(operators: Counter[str]) -> Counter[str]:
    """Those operators that compute numbers of the model, not shapes and indices."""
    return Counter({name: count for name, count in operators.items() if name not in COUNTING})


def _check_strict(session: "InferenceSession", path: Path, device_config: DeviceConfig) -> None:
    found = nodes_on_other_providers(session, device_config)
    if found is None:
        raise UsageError(
            "this onnxruntime cannot tell where nodes run: take release 1.24 or newer, or no strict device"
        )
    for provider, operators in found.items():
        numbers = compute_nodes(operators)
        if numbers:
            named = ", ".join(f"{name} {count}" for name, count in numbers.most_common())
            raise UsageError(
                f"{provider} instead of {device_config.device} would run nodes of {path}: {named}; "
                "take another bundle, or no strict device"
            )


def _options(threads: int) -> "SessionOptions":
    options = load_onnxruntime().SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors come as exceptions too
    options.enable_mem_pattern = False  # shapes change with every step
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # spinning starves a busy machine
    return options


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


Array = NDArray[Any]
Tensor = Any  # an array, or where the device's memory is not numpy's, an OrtValue there


def run_on_device(
    session: "InferenceSession", inputs: Mapping[str, Tensor], *, memory: str, fetched: Collection[str] = ()
) -> dict[str, Tensor]:
    """All outputs by name: those that are ``fetched`` as arrays, all others in the memory of the device.

    Of the inputs, arrays are brought to the device, and tensors that are there already stay. In numpy's own memory all
    of them are arrays: to bind each call anew would cost a third of the time of a small model there.
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
    found = zip(names, binding.get_outputs(), strict=True)
    return {name: value.numpy() if name in fetched else value for name, value in found}
