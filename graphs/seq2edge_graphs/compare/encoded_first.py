"""Encode all that a bundle will be asked before it decodes anything, and let its encoder go; needs onnxruntime.

A comparison asks for the same sentences again and again. So the two graphs need not be in memory together.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import NDArray

from seq2edge.onnx_engine import OnnxEngine
from seq2edge.sessions import run

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Feed = dict[str, NDArray[Any]]


def encode_first(engine: OnnxEngine, batches: Iterable[list[list[int]]]) -> None:
    """Let an engine answer for these batches alone; one whose states stay on a device keeps its encoder."""
    if engine.captures is not None or not engine.buffered:
        return
    remembered = Remembered(engine.encoder)
    engine.encoder = cast("InferenceSession", remembered)
    for sources in batches:
        engine.start(sources)
    remembered.session = None


@dataclass(frozen=True)
class Output:
    """What the engine wants to know of an output; onnxruntime's own would keep the session in memory."""

    name: str
    shape: list[str | int]


class Remembered:
    """Stands for a session that has been run on all that it will be given."""

    def __init__(self, session: "InferenceSession") -> None:
        self.session: InferenceSession | None = session
        self.outputs = [Output(one.name, one.shape) for one in session.get_outputs()]
        self.given: dict[object, list[Any]] = {}

    def get_outputs(self) -> list[Output]:
        return self.outputs

    def run(self, wanted: list[str] | None, feed: Feed) -> list[Any]:
        key = wanted and tuple(wanted), tuple((name, array.shape, array.tobytes()) for name, array in feed.items())
        if self.session is not None and key not in self.given:
            self.given[key] = run(self.session, feed, wanted)
        return self.given[key]
