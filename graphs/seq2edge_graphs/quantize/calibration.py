"""Record the activations that each weight is multiplied with while a bundle translates calibration sentences.

Only the sums of outer products are kept: for each product the Gram matrix of the rows on its left. The sentences are
translated one by one, so that no row is padding, and greedily, so that the decoder reads its own output.

Without text, sentences are made of random tokens of the vocabulary, which works for every language and tokenizer.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import open_session
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import DataError
from seq2edge.search.batch_decode import decode
from seq2edge.text.tokenizer import Tokenizer
from seq2edge_graphs.parity.record import ParityTask
from seq2edge_graphs.passes.subgraph import expose
from seq2edge_graphs.quantize.gptq import Gram, Grams
from seq2edge_graphs.quantize.weights import quantizable_weights

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

RANDOM_SENTENCES = 64
RANDOM_LENGTHS = range(4, 25)  # in tokens, without special ones
RANDOM_NEW_TOKENS = 48  # a model may never end the translation of random tokens
ZIPF_OFFSET = 2.7  # of the Zipf-Mandelbrot law
ROWS_PER_PRODUCT = 256  # a few large matrix products are faster than many small ones


def random_sources(bundle: Bundle, tokenizer: Tokenizer) -> list[list[int]]:
    """Return seeded sentences of random tokens with natural frequencies, as vocabularies are sorted by frequency."""
    tokens, vocabulary = bundle.manifest.tokens, tokenizer.source
    special = {tokens.pad, tokens.bos, tokens.eos, tokens.unk} | vocabulary.unknown_ids
    ids = [number for number in range(vocabulary.get_piece_size()) if number not in special]
    frequencies = 1 / (np.arange(len(ids)) + ZIPF_OFFSET)
    random = np.random.default_rng(0)
    lengths = random.choice(RANDOM_LENGTHS, RANDOM_SENTENCES)
    sources = [random.choice(ids, length, p=frequencies / frequencies.sum()).tolist() for length in lengths]
    return [tokenizer.frame.truncate(tokenizer.frame.wrap(one), bundle.manifest.max_positions) for one in sources]


def collect_grams(bundle: Bundle, sources: Sequence[list[int]], *, max_new_tokens: int = sys.maxsize) -> Grams:
    """Return the Gram matrix of each weight of a float32 bundle, from the translation of some sentences."""
    if not sources:
        raise DataError("there is no sentence to calibrate with; give some")
    task = ParityTask(list(sources), bundle.manifest.generation, max_new_tokens)
    options = replace(task.options(1), do_sample=False)
    sessions: dict[str, RecordingSession] = {}

    with TemporaryDirectory() as folder:

        def open_recording(
            path: Path, *, threads: int, device_config: DeviceConfig, content: bytes | None
        ) -> "InferenceSession":
            sessions[path.name] = RecordingSession(path, Path(folder), threads, device_config)
            return cast("InferenceSession", sessions[path.name])

        engine = OnnxEngine(bundle, threads=1, open_session=open_recording)
        engine.padding = replace(engine.padding, max_length=0)  # no padding, which would be recorded too
        decode(engine, sources, options, batch_size=1)
        recorded = [sessions[name].grams() for name in (tensor_names.ENCODER, tensor_names.DECODER)]
        return Grams({weight: gram for grams in recorded for weight, gram in grams.items()})


class RecordingSession:
    """A session that also records the left sides of its graph's products."""

    def __init__(self, path: Path, folder: Path, threads: int, device_config: DeviceConfig) -> None:
        self.weights = _weights_by_input(ir.load(path).graph)
        self.rows = {value: GramAccumulator() for value in self.weights}
        copy = expose(path, [*self.weights], folder, weights=tensor_names.WEIGHTS, keep_outputs=True)
        self.session = open_session(copy, threads=threads, device_config=device_config)
        self.output_count = len(self.session.get_outputs()) - len(self.weights)

    def get_inputs(self) -> list[Any]:
        inputs: list[Any] = self.session.get_inputs()
        return inputs

    def get_outputs(self) -> list[Any]:
        outputs: list[Any] = self.session.get_outputs()
        return outputs[: self.output_count]

    def run(self, _: None, feed: dict[str, Any], options: Any = None) -> list[Any]:
        outputs: list[Any] = self.session.run(None, feed, options)
        for rows, values in zip(self.rows.values(), outputs[self.output_count :], strict=True):
            rows.add(values)
        return outputs[: self.output_count]

    def io_binding(self) -> Any:
        """Bind the recorded values before the outputs of the caller; onnxruntime allocates them in each run."""
        binding = self.session.io_binding()
        for value in self.weights:
            binding.bind_output(value)
        return binding

    def run_with_iobinding(self, binding: Any, options: Any = None) -> None:
        self.session.run_with_iobinding(binding, options)
        for rows, values in zip(self.rows.values(), binding.get_outputs(), strict=False):
            rows.add(values.numpy())

    def grams(self) -> dict[str, Gram]:
        """Return the Gram matrices by weight; weights that are multiplied with the same value share one."""
        by_value = {value: rows.gram() for value, rows in self.rows.items()}
        return {weight: by_value[value] for value, weights in self.weights.items() for weight in weights}


class GramAccumulator:
    """Sums the outer products of all rows of a value."""

    def __init__(self) -> None:
        self.pending: list[NDArray[np.float32]] = []
        self.total: Gram | float = 0.0
        self.count = 0

    def add(self, values: NDArray[np.float32]) -> None:  # (..., K)
        self.pending.append(values.reshape(-1, values.shape[-1]))
        if sum(map(len, self.pending)) >= ROWS_PER_PRODUCT:
            self._sum_pending()

    def gram(self) -> Gram:
        self._sum_pending()
        return np.asarray(self.total / max(self.count, 1), np.float32)

    def _sum_pending(self) -> None:
        if self.pending:
            rows = np.concatenate(self.pending)
            self.total = self.total + rows.T @ rows
            self.count += len(rows)
            self.pending = []


def _weights_by_input(graph: ir.Graph) -> dict[str, list[str]]:
    """Return the weights that each value on the left of a product is multiplied with."""
    weights: dict[str, list[str]] = {}
    for weight in quantizable_weights(graph):
        for product in weight.products:
            left = product.inputs[0]
            if left is not None and left.producer() is not None and not left.is_graph_output():
                weights.setdefault(str(left.name), []).append(weight.name)
    return weights
