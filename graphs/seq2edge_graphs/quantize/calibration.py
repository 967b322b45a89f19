"""Watch what is multiplied with each weight while a bundle translates.

Only sums are kept: for each product the mean outer product of the rows on its left, its Gram matrix. The sentences are
translated one by one, so that no row is padding, and greedily, so that the decoder sees what it makes itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.devices.session import open_session
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import DataError
from seq2edge.search.batch_decode import decode
from seq2edge_graphs.passes.expose import expose
from seq2edge_graphs.quantize.gptq import Gram
from seq2edge_graphs.quantize.weights import quantizable_weights

ROWS_AT_ONCE = 256  # few large products of matrices are faster than many small ones


class GramAccumulator:
    """Adds up the outer products of all rows of a value."""

    def __init__(self) -> None:
        self.waiting: list[NDArray[np.float32]] = []
        self.total: Gram | float = 0.0
        self.count = 0

    def add(self, values: NDArray[np.float32]) -> None:  # (..., K)
        self.waiting.append(values.reshape(-1, values.shape[-1]))
        if sum(map(len, self.waiting)) >= ROWS_AT_ONCE:
            self._add_up()

    def gram(self) -> Gram:
        self._add_up()
        return np.asarray(self.total / max(self.count, 1))

    def _add_up(self) -> None:
        if self.waiting:
            rows = np.concatenate(self.waiting)
            self.total = self.total + (rows.T @ rows).astype(np.float64)
            self.count += len(rows)
            self.waiting = []


class RecordingSession:
    """Stands for the session of a graph: gives what it gives, and notes what its products read."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.weights = _weights_by_input(ir.load(path).graph)
        self.rows = {value: GramAccumulator() for value in self.weights}
        copy = expose(path, [*self.weights], folder, weights=tensor_names.WEIGHTS, alone=False)
        self.session = open_session(copy, threads=1)
        self.own = len(self.session.get_outputs()) - len(self.weights)

    def get_inputs(self) -> list[Any]:
        inputs: list[Any] = self.session.get_inputs()
        return inputs

    def get_outputs(self) -> list[Any]:
        outputs: list[Any] = self.session.get_outputs()
        return outputs[: self.own]

    def run(self, _: None, feed: dict[str, Any]) -> list[Any]:
        outputs: list[Any] = self.session.run(None, feed)
        for rows, values in zip(self.rows.values(), outputs[self.own :], strict=True):
            rows.add(values)
        return outputs[: self.own]

    def io_binding(self) -> Any:
        """Memory for what is noted comes first, anew with each run."""
        binding = self.session.io_binding()
        for value in self.weights:
            binding.bind_output(value)
        return binding

    def run_with_iobinding(self, binding: Any) -> None:
        self.session.run_with_iobinding(binding)
        for rows, values in zip(self.rows.values(), binding.get_outputs(), strict=False):
            rows.add(values.numpy())

    def grams(self) -> dict[str, Gram]:
        """By the name of the weight; weights that read the same value share one matrix."""
        by_value = {value: rows.gram() for value, rows in self.rows.items()}
        return {weight: by_value[value] for value, weights in self.weights.items() for weight in weights}


def collect_grams(bundle: Bundle, sources: Sequence[list[int]]) -> dict[str, Gram]:
    """The Gram matrix of what is multiplied with each weight of a float32 bundle while it translates some sentences."""
    if not sources:
        raise DataError("there is no sentence to calibrate with; give some")
    options = replace(bundle.manifest.generation, num_beams=1, num_return_sequences=1, do_sample=False)
    with TemporaryDirectory() as temporary:
        engine = OnnxEngine(bundle, threads=1)
        watched = [
            RecordingSession(bundle.folder / name, Path(temporary))
            for name in (tensor_names.ENCODER, tensor_names.DECODER)
        ]
        engine.encoder, engine.decoder = watched
        decode(engine, sources, options, batch_size=1)
        return {name: gram for session in watched for name, gram in session.grams().items()}


def _weights_by_input(graph: ir.Graph) -> dict[str, list[str]]:
    """For each value on the left of a product, the weights on its right; a value of several products is there once."""
    inputs: dict[str, list[str]] = {}
    for part in quantizable_weights(graph):
        for product in part.products:
            left = product.inputs[0]
            if left is not None and left.producer() is not None and not left.is_graph_output():
                inputs.setdefault(str(left.name), []).append(part.name)
    return inputs
