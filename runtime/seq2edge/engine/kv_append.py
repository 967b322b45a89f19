"""Decode with a cache that grows and never leaves its device: every call gives a new one.

All that is large stays where the device has it: the cross states, the cache and the logits. A step brings tokens and
rows there, and the best tokens with their scores back; all logits only where a search has to see them.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.devices.session import Tensor, run_on_device
from seq2edge.engine.decoder_inputs import RestrictedVocabulary, empty_past
from seq2edge.engine.device_topk import DeviceTopK
from seq2edge.engine.encoder import pad_sources
from seq2edge.search import Ids, Scores

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class AppendCacheState:
    """Decode one step; keeps the cache, and drops the sentences that the search has dropped.

    The graph selects the rows of the cache that go on, and says itself what the cache looks like: its inputs that begin
    with ``past``, in the order of its outputs behind the logits.
    """

    def __init__(
        self,
        encoder: "InferenceSession",
        decoder: "InferenceSession",
        chooser: DeviceTopK,
        sources: list[list[int]],
        *,
        pad: int,
    ) -> None:
        self.decoder, self.chooser, self.memory = decoder, chooser, chooser.memory
        self.kinds = source_kinds(decoder)
        self.words: RestrictedVocabulary | None = None
        self.sentences, self.rows_per_sentence = len(sources), 1
        self.source = self._encoded(encoder, sources, pad)  # by input: mask and cross states, one row a sentence
        self.past: dict[str, Tensor] = {**empty_past(decoder, rows=len(sources))}

    def _encoded(self, encoder: "InferenceSession", sources: list[list[int]], pad: int) -> dict[str, Tensor]:
        ids, mask = pad_sources(sources, pad)
        cross = run_on_device(encoder, {tensor_names.SOURCE: ids, tensor_names.SOURCE_MASK: mask}, memory=self.memory)
        there = self.chooser.select(mask, np.arange(len(sources)), self.kinds[tensor_names.SOURCE_MASK])
        return {**cross, tensor_names.SOURCE_MASK: there}

    def with_words(self, words: RestrictedVocabulary | None) -> "AppendCacheState":
        """The same among some words, which the graph is then given."""
        self.words = words
        return self

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]:
        """What the encoder has handed over."""
        cross, everybody = {**self.source}, np.arange(self.sentences)
        cross.pop(tensor_names.SOURCE_MASK)
        return {name: self.chooser.fetch(states, everybody, self.kinds[name]) for name, states in cross.items()}

    @property
    def vocabulary(self) -> int:
        return int(next(one.shape[-1] for one in self.decoder.get_outputs() if one.name == tensor_names.LOGITS))

    def __call__(self, tokens: Ids, rows: Ids) -> Scores:  # (B, K, T), (B, K) -> (B, K, V)
        scores: Scores = self._step(tokens, rows, fetched=(tensor_names.LOGITS,))
        return scores

    def best(self, tokens: Ids, rows: Ids, count: int) -> tuple[Ids, Scores]:  # (B, K, T), (B, K) -> (B, K, count) each
        """The best next tokens of each row, best first, and their log-probabilities."""
        return self.chooser.choose(self._step(tokens, rows), count)

    def _step(self, tokens: Ids, rows: Ids, fetched: tuple[str, ...] = ()) -> Tensor:
        self._keep_sentences(rows[:, 0] // self.rows_per_sentence)
        words = {} if self.words is None else self.words.inputs(self.words.bias[:, None])  # (B, 1, U)
        given = {tensor_names.TARGET: tokens, tensor_names.ROWS: rows, **self.source, **self.past, **words}
        found = run_on_device(self.decoder, given, memory=self.memory, fetched=fetched)
        self.past = {name: found[tensor_names.present_of(name)] for name in self.past}
        self.rows_per_sentence = rows.shape[1]
        return found[tensor_names.LOGITS]

    def _keep_sentences(self, kept: Ids) -> None:
        if len(kept) < self.sentences:
            self.source = {n: self.chooser.select(states, kept, self.kinds[n]) for n, states in self.source.items()}
            self.words = self.words and self.words.only(kept)
            self.sentences = len(kept)


def source_kinds(decoder: "InferenceSession") -> dict[str, str]:
    """The kind of numbers of what a decoder reads of its source, by input."""
    read = [
        one for one in decoder.get_inputs() if one.name == tensor_names.SOURCE_MASK or tensor_names.is_cross(one.name)
    ]
    return {one.name: one.type.removeprefix("tensor(").removesuffix(")") for one in read}
