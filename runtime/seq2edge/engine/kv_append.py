"""Decode with a KV cache that every call returns one token longer, and that never leaves its device.

The cross-attention states, the cache and the logits stay in the memory of the device. A step copies tokens and rows to
it, and the best tokens with their log-probabilities back; all logits only if the search has to see them.
"""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.devices import topk_graphs
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import CPU_CONFIG, Array, Tensor, open_session, run_on_device
from seq2edge.engine.decoder_inputs import RestrictedVocabulary, empty_past, vocabulary_size
from seq2edge.engine.encoder import Padding
from seq2edge.search import DecoderState, Ids, StepOutput, TopK
from seq2edge.search.log_softmax import check_numbers

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class DeviceTopK:
    """Small graphs that select tokens and rows in the memory of a device, whatever the model.

    Where tensors are in host memory, the CPU provider runs them, whichever provider runs the model: it is faster than
    numpy, and other providers that compute on the CPU order ties differently.
    """

    def __init__(self, device_config: DeviceConfig, *, threads: int, dtypes: set[str]) -> None:
        self.memory = device_config.kind.memory
        selector = CPU_CONFIG if device_config.kind.is_host else device_config

        def opened(file: Path) -> "InferenceSession":
            return open_session(file, threads=threads, device_config=selector)

        self.likeliest, self.best = opened(topk_graphs.LIKELIEST), opened(topk_graphs.BEST)
        self.selecting = {dtype: opened(topk_graphs.select_graph(dtype)) for dtype in sorted(dtypes)}

    def top_k(self, logits: Tensor, k: int) -> TopK:  # (B, K, V) -> (B, K, k) each
        """Return the best tokens of each row, best first; only these leave the device."""
        graph, inputs = self.likeliest, {topk_graphs.LOGITS: logits}
        if k > 1:
            graph, inputs = self.best, {**inputs, topk_graphs.COUNT: np.array([k], np.int64)}
        fetched = (topk_graphs.TOKENS, topk_graphs.SCORES)
        outputs = run_on_device(graph, inputs, memory=self.memory, fetched=fetched)
        return TopK(outputs[topk_graphs.TOKENS], outputs[topk_graphs.SCORES])

    def select(self, states: Tensor, rows: Ids, dtype: str) -> Tensor:
        """Return some rows of a tensor; a numpy array is copied to the device on the way."""
        inputs = {topk_graphs.STATES: states, topk_graphs.ROWS: rows}
        return run_on_device(self.selecting[dtype], inputs, memory=self.memory)[topk_graphs.SELECTED]

    def fetch(self, states: Tensor, rows: Ids, dtype: str) -> Array:
        """Return some rows of a tensor as a numpy array."""
        inputs, fetched = {topk_graphs.STATES: states, topk_graphs.ROWS: rows}, (topk_graphs.SELECTED,)
        outputs = run_on_device(self.selecting[dtype], inputs, memory=self.memory, fetched=fetched)
        array: Array = outputs[topk_graphs.SELECTED]
        return array


class AppendCacheState(DecoderState):
    """A decoder state whose graph selects the rows of the cache and appends to them.

    The graph defines what the cache looks like: its inputs that begin with ``past``, in the order of its outputs behind
    the logits.
    """

    selects_on_device = True

    def __init__(
        self,
        encoder: "InferenceSession",
        decoder: "InferenceSession",
        device_topk: DeviceTopK,
        sources: list[list[int]],
        *,
        padding: Padding,
    ) -> None:
        self.decoder, self.device_topk, self.memory = decoder, device_topk, device_topk.memory
        self.dtypes = source_dtypes(decoder)
        self.vocabulary: RestrictedVocabulary | None = None
        self.sentences, self.rows_per_sentence = len(sources), 1
        self.source = self._encode(encoder, *padding.pad(sources))  # by input, one row per sentence
        self.past: dict[str, Tensor] = {**empty_past(decoder, rows=len(sources))}

    def _encode(
        self, encoder: "InferenceSession", ids: Ids, mask: NDArray[np.bool_]
    ) -> dict[str, Tensor]:  # (B, S) each
        inputs = {tensor_names.SOURCE: ids, tensor_names.SOURCE_MASK: mask}
        cross = run_on_device(encoder, inputs, memory=self.memory)
        mask_dtype = self.dtypes[tensor_names.SOURCE_MASK]
        return {**cross, tensor_names.SOURCE_MASK: self.device_topk.select(mask, np.arange(len(ids)), mask_dtype)}

    def with_vocabulary(self, vocabulary: RestrictedVocabulary | None) -> "AppendCacheState":
        """Restrict the decoder to a part of the vocabulary."""
        self.vocabulary = vocabulary
        return self

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]:
        cross, all_rows = {**self.source}, np.arange(self.sentences)
        cross.pop(tensor_names.SOURCE_MASK)
        return {name: self.device_topk.fetch(states, all_rows, self.dtypes[name]) for name, states in cross.items()}

    def step(self, tokens: Ids, rows: Ids) -> StepOutput:
        return StepOutput(self._run(tokens, rows, fetched=(tensor_names.LOGITS,)))

    def top_k(self, tokens: Ids, rows: Ids, k: int) -> TopK:
        best = self.device_topk.top_k(self._run(tokens, rows), min(k, self._vocabulary_size))
        check_numbers(best.log_probabilities)
        return best

    def _run(self, tokens: Ids, rows: Ids, fetched: tuple[str, ...] = ()) -> Tensor:
        self._keep_sentences(rows[:, 0] // self.rows_per_sentence)
        vocabulary = (
            {} if self.vocabulary is None else self.vocabulary.inputs(self.vocabulary.bias[:, None])
        )  # (B, 1, U)
        inputs = {tensor_names.TARGET: tokens, tensor_names.ROWS: rows, **self.source, **self.past, **vocabulary}
        outputs = run_on_device(self.decoder, inputs, memory=self.memory, fetched=fetched)
        self.past = {name: outputs[tensor_names.present_of(name)] for name in self.past}
        self.rows_per_sentence = rows.shape[1]
        return outputs[tensor_names.LOGITS]

    def _keep_sentences(self, kept: Ids) -> None:
        if len(kept) < self.sentences:
            select, dtypes = self.device_topk.select, self.dtypes
            self.source = {name: select(states, kept, dtypes[name]) for name, states in self.source.items()}
            self.vocabulary = self.vocabulary and self.vocabulary.only(kept)
            self.sentences = len(kept)

    @cached_property
    def _vocabulary_size(self) -> int:
        return vocabulary_size(self.decoder) if self.vocabulary is None else len(self.vocabulary.token_ids)


def source_dtypes(decoder: "InferenceSession") -> dict[str, str]:
    """Return the dtypes of what a decoder reads of its source, by input."""
    inputs = {one.name: one.type for one in decoder.get_inputs()}
    read = {name for name in inputs if name == tensor_names.SOURCE_MASK or tensor_names.is_cross(name)}
    return {name: type.removeprefix("tensor(").removesuffix(")") for name, type in inputs.items() if name in read}
