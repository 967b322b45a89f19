"""Select tokens and rows in the memory of a device, with small graphs that fit every model.

Where tensors are in host memory, the CPU provider runs these graphs, whichever provider runs the model: it is faster
than numpy, and other providers that compute on the CPU order ties differently.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seq2edge.devices import topk_graphs
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import CPU_CONFIG, Array, Tensor, open_session, run_on_device
from seq2edge.search import Ids, TopK

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class DeviceTopK:
    """The selection graphs on a device."""

    def __init__(self, device_config: DeviceConfig, *, threads: int, dtypes: set[str]) -> None:
        self.memory = device_config.kind.memory
        selector = CPU_CONFIG if device_config.kind.is_host else device_config

        def opened(file: Path) -> "InferenceSession":
            return open_session(file, threads=threads, device_config=selector)

        self.likeliest, self.best = opened(topk_graphs.LIKELIEST), opened(topk_graphs.BEST)
        self.selecting = {dtype: opened(topk_graphs.selecting(dtype)) for dtype in sorted(dtypes)}

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
