"""Tensors that stay where a device has them, from one graph to the next; needs numpy and onnxruntime."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from seq2edge.sessions import run_bound

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, OrtValue

Array = NDArray[Any]


def run_where_they_are(
    session: "InferenceSession",
    inputs: Mapping[str, Any],
    *,
    memory: str,
    fetched: Collection[str] = (),
) -> dict[str, "OrtValue"]:
    """All outputs by name: those that are ``fetched`` in numpy's memory, all others in that of the device.

    Of the inputs, arrays are brought to the device, and tensors that are there already stay.
    """
    binding = session.io_binding()
    for name, value in inputs.items():
        if hasattr(value, "device_name"):
            binding.bind_ortvalue_input(name, value)
        else:
            binding.bind_cpu_input(name, value)
    names = [output.name for output in session.get_outputs()]
    for name in names:
        binding.bind_output(name, "cpu" if name in fetched else memory)
    run_bound(session, binding)
    return dict(zip(names, binding.get_outputs(), strict=True))
