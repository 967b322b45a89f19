"""Who is told how the training goes; needs nothing."""

from typing import Protocol

from seq2edge_export.training.history import Measurement


class Observer(Protocol):
    def say(self, text: str) -> None: ...
    def step(self, step: int, *, loss: float, tokens_per_second: float) -> None: ...
    def measured(self, row: Measurement, *, best: bool) -> None: ...
