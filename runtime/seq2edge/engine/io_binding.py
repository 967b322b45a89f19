"""Bind numpy arrays to a session once, and run it many times."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from seq2edge.devices.session import run_bound

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


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
        values = {id(array): OrtValue.ortvalue_from_numpy(array) for array in (*inputs.values(), *outputs.values())}
        for name, array in inputs.items():
            self.binding.bind_ortvalue_input(name, values[id(array)])
        for name, array in outputs.items():
            self.binding.bind_ortvalue_output(name, values[id(array)])
        self.kept = inputs, outputs, values  # onnxruntime does not keep the memory alive

    def __call__(self) -> None:
        run_bound(self.session, self.binding)
