"""Record the activations that each weight is multiplied with while a bundle translates calibration sentences.

Activations are not kept, only what is needed of the rows on the left of each product: their range for 8 bits, their
Gram matrix for 4 bits. The sentences are translated one by one, so that no row is padding, and greedily, so that the
decoder reads its own output.

Without text, sentences are made of random tokens of the vocabulary, which works for every language and tokenizer.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

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
from seq2edge.text.tokenizer import Tokenizer, bundle_tokenizer
from seq2edge_graphs.parity.record import ParityTask
from seq2edge_graphs.parity.sentences import encode_sentences
from seq2edge_graphs.passes.subgraph import expose
from seq2edge_graphs.quantize.gptq import Gram, Grams
from seq2edge_graphs.quantize.int8 import SIGNED, UNSIGNED, Ranges
from seq2edge_graphs.quantize.weights import quantizable_weights

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

A = TypeVar("A", bound="Accumulator")
MAX_ADDED_NOISE = 0.02  # of all values together; OPUS-MT predicts as well with it as without, and worse with more
MARGIN = 1.05  # other text may have somewhat larger values than the calibration, which would be cut off
RANDOM_SENTENCES = 64
RANDOM_LENGTHS = range(4, 25)  # in tokens, without special ones
RANDOM_NEW_TOKENS = 48  # a model may never end the translation of random tokens
ZIPF_OFFSET = 2.7  # of the Zipf-Mandelbrot law
ROWS_PER_PRODUCT = 256  # a few large matrix products are faster than many small ones


@dataclass(frozen=True)
class Calibration:
    """What rounding needs to know of the activations, and the number of sentences that it comes from."""

    grams: Grams = field(default_factory=Grams)  # for 4 bits
    ranges: Ranges = field(default_factory=dict)  # for 8 bits
    sentences: int = 0


NO_CALIBRATION = Calibration()


def calibrate(bundle: Bundle, texts: Sequence[str], *, grams: bool, ranges: bool) -> Calibration:
    """Translate the texts, or random tokens if there are none, with a float32 bundle.

    Ranges are taken from random tokens and a built-in set as well, so that few texts do not make them too narrow.
    """
    tokenizer, max_tokens = bundle_tokenizer(bundle), bundle.manifest.max_positions
    given, limit = encode_sentences(texts, tokenizer, max_tokens=max_tokens) if texts else ([], RANDOM_NEW_TOKENS)
    random = random_sources(bundle, tokenizer)
    built_in, _ = encode_sentences(None, tokenizer, max_tokens=max_tokens)
    for_grams, for_ranges = given or random, given + random + built_in
    return Calibration(
        collect_grams(bundle, for_grams, max_new_tokens=limit) if grams else Grams(),
        static_ranges(collect_ranges(bundle, for_ranges, max_new_tokens=RANDOM_NEW_TOKENS)) if ranges else {},
        len(for_ranges if ranges else for_grams),
    )


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
    grams: dict[int, Gram] = {}  # weights that are multiplied with the same value share one

    def gram(rows: GramAccumulator) -> Gram:
        if id(rows) not in grams:
            grams[id(rows)] = rows.gram()
        return grams[id(rows)]

    recorded = _record(bundle, sources, GramAccumulator, max_new_tokens)
    return Grams({weight: gram(rows) for weight, rows in recorded.items()})


def collect_ranges(
    bundle: Bundle, sources: Sequence[list[int]], *, max_new_tokens: int = sys.maxsize
) -> dict[str, "RangeAccumulator"]:
    """Return the range of the activations that each weight of a float32 bundle is multiplied with."""
    return _record(bundle, sources, RangeAccumulator, max_new_tokens)


def _record(
    bundle: Bundle, sources: Sequence[list[int]], accumulator: Callable[[], A], max_new_tokens: int
) -> dict[str, A]:
    """Translate some sentences, and return what was recorded by the name of the weight."""
    if not sources:
        raise DataError("there is no sentence to calibrate with; give some")
    task = ParityTask(list(sources), bundle.manifest.generation, max_new_tokens)
    options = replace(task.options(1), do_sample=False)
    sessions: dict[str, RecordingSession[A]] = {}

    with TemporaryDirectory() as folder:

        def open_recording(
            path: Path, *, threads: int, device_config: DeviceConfig, content: bytes | None
        ) -> "InferenceSession":
            sessions[path.name] = RecordingSession(path, Path(folder), accumulator, threads, device_config)
            return cast("InferenceSession", sessions[path.name])

        engine = OnnxEngine(bundle, threads=1, open_session=open_recording)
        engine.padding = replace(engine.padding, max_length=0)  # no padding, which would be recorded too
        decode(engine, sources, options, batch_size=1)
    return sessions[tensor_names.ENCODER].recorded | sessions[tensor_names.DECODER].recorded


class RecordingSession(Generic[A]):
    """A session that also records the left sides of its graph's products."""

    def __init__(
        self, path: Path, folder: Path, accumulator: Callable[[], A], threads: int, device_config: DeviceConfig
    ) -> None:
        self.weights = _weights_by_input(ir.load(path).graph)
        self.rows = {value: accumulator() for value in self.weights}
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

    @property
    def recorded(self) -> dict[str, A]:
        """Return what was recorded by weight; weights that are multiplied with the same value share it."""
        return {weight: self.rows[value] for value, weights in self.weights.items() for weight in weights}


class Accumulator(Protocol):
    """What is kept of the rows of a value."""

    def add(self, values: NDArray[np.float32]) -> None: ...


class RangeAccumulator:
    """The largest magnitude of a value, and what rounding it to 8 bits costs."""

    def __init__(self) -> None:
        self.smallest, self.largest, self.rows = 0.0, 0.0, 0
        self.inverse_squares = 0.0  # of all rows: 1 / mean square
        self.peaks = 0.0  # of all rows: largest square / mean square

    def add(self, values: NDArray[np.float32]) -> None:  # (..., K)
        rows = values.reshape(-1, values.shape[-1]).astype(np.float64)
        rows = rows[rows.any(axis=1)]  # zeros are exact with any scale
        squares = np.square(rows)
        mean, largest = squares.mean(axis=1), squares.max(axis=1)
        self.smallest = min(self.smallest, float(values.min(initial=0)))
        self.largest = max(self.largest, math.sqrt(largest.max(initial=0)))
        self.inverse_squares += float((1 / mean).sum())
        self.peaks += float((largest / mean).sum())
        self.rows += len(rows)

    @property
    def added_noise(self) -> float:
        """Return the rounding noise that one scale for all rows adds to that of a scale for each row.

        The noise of a row is its mean squared error over its mean square; the result is the mean of all rows. The error
        of rounding is uniform within a step, so its mean square is a twelfth of that of a step.
        """
        steps = UNSIGNED if self.smallest >= 0 else SIGNED
        return (self.largest**2 * self.inverse_squares - self.peaks) / max(self.rows, 1) / steps**2 / 12


def static_ranges(recorded: Mapping[str, RangeAccumulator]) -> Ranges:
    """Choose the weights whose left sides get one scale for all rows, and return the largest magnitude of these.

    Those that add the least noise are chosen, as long as all together add at most ``MAX_ADDED_NOISE``.
    """
    weights: dict[RangeAccumulator, list[str]] = {}
    for weight, one in recorded.items():
        weights.setdefault(one, []).append(weight)
    chosen: dict[str, float] = {}
    total = 0.0
    for one in sorted(weights, key=lambda one: one.added_noise):
        total += one.added_noise
        if total > MAX_ADDED_NOISE:
            break
        chosen |= dict.fromkeys(weights[one], one.largest * MARGIN)
    return chosen


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
