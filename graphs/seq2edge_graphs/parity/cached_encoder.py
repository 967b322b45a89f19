"""Encode all that a bundle will be asked before it decodes anything, and let its encoder go.

A comparison asks for the same sentences again and again. What the encoder makes of them goes to files, so that it need
not be in memory while the decoder works.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from seq2edge.engine.engine import OnnxEngine

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Feed = dict[str, NDArray[Any]]


def cache_encoder(engine: OnnxEngine, batches: Iterable[list[list[int]]], folder: Path) -> None:
    """Let an engine answer for these batches alone; one that keeps states where it computes keeps its encoder."""
    if not engine.buffered:
        return
    remembered = CachedEncoder(engine.encoder, folder)
    engine.encoder = cast("InferenceSession", remembered)
    for sources in batches:
        engine.start(sources)
    remembered.session = None


@dataclass(frozen=True)
class CachedOutput:
    """What the engine wants to know of an output; onnxruntime's own would keep the session in memory."""

    name: str
    shape: list[str | int]


class CachedEncoder:
    """Stands for a session that has been run on all that it will be given."""

    def __init__(self, session: "InferenceSession", folder: Path) -> None:
        self.session: InferenceSession | None = session
        self.outputs = [CachedOutput(one.name, one.shape) for one in session.get_outputs()]
        self.folder = folder
        self.given: dict[object, Path] = {}

    def get_outputs(self) -> list[CachedOutput]:
        return self.outputs

    def run(self, wanted: list[str] | None, feed: Feed) -> list[Any]:
        key = wanted and tuple(wanted), tuple((name, array.shape, array.tobytes()) for name, array in feed.items())
        if self.session is not None and key not in self.given:
            self.given[key] = self.folder / f"encoded-{len(self.given)}"
            with self.given[key].open("wb") as file:
                for states in self.session.run(wanted, feed):
                    np.save(file, states)
        with self.given[key].open("rb") as file:
            return [np.load(file) for _ in wanted or self.outputs]
