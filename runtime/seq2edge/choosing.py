"""Choose tokens and drop sentences where the tensors are; needs numpy and onnxruntime.

The graphs are small and know no model. Where tensors are in numpy's memory, onnxruntime's CPU provider runs them,
whoever runs the model: it is faster than numpy, and other providers for a CPU order equal scores otherwise.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seq2edge import device_graphs as files
from seq2edge.devices import Place
from seq2edge.search import Ids, Scores
from seq2edge.sessions import HERE, open_session
from seq2edge.tensors import Array, Tensor, run_where_they_are

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class Chooser:
    """The small graphs on a device."""

    def __init__(self, place: Place, *, threads: int, kinds: set[str]) -> None:
        self.memory = place.kind.memory
        own = HERE if place.kind.is_host else place

        def opened(file: Path) -> "InferenceSession":
            return open_session(file, threads=threads, place=own)

        self.likeliest, self.best = opened(files.LIKELIEST), opened(files.BEST)
        self.selecting = {kind: opened(files.selecting(kind)) for kind in sorted(kinds)}

    def choose(self, logits: Tensor, count: int) -> tuple[Ids, Scores]:  # (B, K, V) -> (B, K, count) each
        """The best tokens of each row, best first, and their log-probabilities; only these leave the device."""
        graph, given = self.likeliest, {files.LOGITS: logits}
        if count > 1:
            graph, given = self.best, {**given, files.COUNT: np.array([count], np.int64)}
        wanted = (files.TOKENS, files.SCORES)
        found = run_where_they_are(graph, given, memory=self.memory, fetched=wanted)
        return found[files.TOKENS], found[files.SCORES]

    def select(self, states: Tensor, rows: Ids, kind: str) -> Tensor:
        """Some rows of a tensor of a kind of numbers; an array is brought to the device on the way."""
        given = {files.STATES: states, files.ROWS: rows}
        return run_where_they_are(self.selecting[kind], given, memory=self.memory)[files.SELECTED]

    def fetch(self, states: Tensor, rows: Ids, kind: str) -> Array:
        """The same brought back as an array."""
        given, wanted = {files.STATES: states, files.ROWS: rows}, (files.SELECTED,)
        found: Array = run_where_they_are(self.selecting[kind], given, memory=self.memory, fetched=wanted)[wanted[0]]
        return found
