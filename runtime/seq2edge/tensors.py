"""Tensors that stay where a device has them, from one graph to the next; needs numpy and onnxruntime."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.devices import HOST
from seq2edge.errors import UsageError
from seq2edge.sessions import run, run_bound

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, IOBinding, NodeArg, OrtValue

Array = NDArray[Any]
Tensor = Any  # an array, or where the device's memory is not numpy's, an OrtValue there


def run_where_they_are(
    session: "InferenceSession", inputs: Mapping[str, Tensor], *, memory: str, fetched: Collection[str] = ()
) -> dict[str, Tensor]:
    """All outputs by name: those that are ``fetched`` as arrays, all others in the memory of the device.

    Of the inputs, arrays are brought to the device, and tensors that are there already stay. In numpy's own memory all
    of them are arrays: to bind each call anew would cost a third of the time of a small model there.
    """
    names = [output.name for output in session.get_outputs()]
    if memory == HOST:
        return dict(zip(names, run(session, dict(inputs)), strict=True))
    binding = bound(session, inputs)
    for name in names:
        binding.bind_output(name, HOST if name in fetched else memory)
    run_bound(session, binding)
    found = zip(names, binding.get_outputs(), strict=True)
    return {name: value.numpy() if name in fetched else value for name, value in found}


def run_into(session: "InferenceSession", inputs: Mapping[str, Tensor], outputs: Mapping[str, "OrtValue"]) -> None:
    """The same with all outputs in memory that is there already."""
    run_bound(session, bound(session, inputs, outputs))


def bound(
    session: "InferenceSession", inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor] | None = None
) -> "IOBinding":
    """A call of a graph with these tensors; what is not told of its outputs is to be bound yet."""
    binding = session.io_binding()
    for name, value in inputs.items():
        bind = binding.bind_cpu_input if isinstance(value, np.ndarray) else binding.bind_ortvalue_input
        bind(name, value)
    for name, value in (outputs or {}).items():
        binding.bind_ortvalue_output(name, value)
    return binding


def kept(value: Tensor) -> "OrtValue":
    """A tensor that can be bound again and again; in numpy's own memory it shares the array's."""
    from onnxruntime import OrtValue

    return OrtValue.ortvalue_from_numpy(value) if isinstance(value, np.ndarray) else value


def fill(value: "OrtValue", array: Array) -> None:
    """Put other numbers into a tensor where it is."""
    try:
        value.update_inplace(array)
    except Exception as error:  # onnxruntime's errors have no common class
        raise UsageError(
            f"this onnxruntime cannot write to a tensor of the device ({error}): take release 1.31 or newer, "
            "or no captured graphs"
        ) from None


def kind_of(entry: "NodeArg") -> str:
    """The kind of numbers of an input, as onnxruntime calls it."""
    return str(entry.type).removeprefix("tensor(").removesuffix(")")
