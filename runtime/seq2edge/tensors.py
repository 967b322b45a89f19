"""Tensors that stay where a device has them, from one graph to the next; needs numpy and onnxruntime."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.devices import HOST
from seq2edge.sessions import run, run_bound

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

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
    binding = session.io_binding()
    for name, value in inputs.items():
        bind = binding.bind_cpu_input if isinstance(value, np.ndarray) else binding.bind_ortvalue_input
        bind(name, value)
    for name in names:
        binding.bind_output(name, HOST if name in fetched else memory)
    run_bound(session, binding)
    found = zip(names, binding.get_outputs(), strict=True)
    return {name: value.numpy() if name in fetched else value for name, value in found}
