"""Choose tokens and drop sentences where the tensors are.

The graphs are small and know no model. Where tensors are in numpy's memory, onnxruntime's CPU provider runs them,
whoever runs the model: it is faster than numpy, and other providers for a CPU order equal scores otherwise.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seq2edge.devices import topk_graphs
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import CPU_CONFIG, Array, Tensor, open_session, run_on_device
from seq2edge.search import Ids, Scores

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class DeviceTopK:
    """The small graphs on a device."""

    def __init__(self, device_config: DeviceConfig, *, threads: int, kinds: set[str]) -> None:
        self.memory = device_config.kind.memory
        own = CPU_CONFIG if device_config.kind.is_host else device_config

        def opened(file: Path) -> "InferenceSession":
            return open_session(file, threads=threads, device_config=own)

        self.likeliest, self.best = opened(topk_graphs.LIKELIEST), opened(topk_graphs.BEST)
        self.selecting = {kind: opened(topk_graphs.selecting(kind)) for kind in sorted(kinds)}

    def choose(self, logits: Tensor, count: int) -> tuple[Ids, Scores]:  # (B, K, V) -> (B, K, count) each
        """The best tokens of each row, best first, and their log-probabilities; only these leave the device."""
        graph, given = self.likeliest, {topk_graphs.LOGITS: logits}
        if count > 1:
            graph, given = self.best, {**given, topk_graphs.COUNT: np.array([count], np.int64)}
        wanted = (topk_graphs.TOKENS, topk_graphs.SCORES)
        found = run_on_device(graph, given, memory=self.memory, fetched=wanted)
        return found[topk_graphs.TOKENS], found[topk_graphs.SCORES]

    def select(self, states: Tensor, rows: Ids, kind: str) -> Tensor:
        """Some rows of a tensor of a kind of numbers; an array is brought to the device on the way."""
        given = {topk_graphs.STATES: states, topk_graphs.ROWS: rows}
        return run_on_device(self.selecting[kind], given, memory=self.memory)[topk_graphs.SELECTED]

    def fetch(self, states: Tensor, rows: Ids, kind: str) -> Array:
        """The same brought back as an array."""
        given, wanted = {topk_graphs.STATES: states, topk_graphs.ROWS: rows}, (topk_graphs.SELECTED,)
        found: Array = run_on_device(self.selecting[kind], given, memory=self.memory, fetched=wanted)[wanted[0]]
        return found
