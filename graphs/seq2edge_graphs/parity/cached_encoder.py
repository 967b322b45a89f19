"""Cache the outputs of a bundle's encoder in files, so that a comparison can release the encoder before decoding.

A comparison encodes the same sentences several times, and does not need the encoder's memory while the decoder runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import open_session
from seq2edge.engine.engine import OnnxEngine

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Feed = dict[str, NDArray[Any]]


class EncoderCache:
    """Opens the sessions of an engine, with the encoder as a ``CachedEncoder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.encoder: CachedEncoder | None = None

    def open_session(
        self, path: Path, *, threads: int, device_config: DeviceConfig, content: bytes | None
    ) -> "InferenceSession":
        session = open_session(path, threads=threads, device_config=device_config, content=content)
        if path.name != tensor_names.ENCODER:
            return session
        self.encoder = CachedEncoder(session, self.folder)
        return cast("InferenceSession", self.encoder)

    def fill(self, engine: OnnxEngine, batches: Iterable[list[list[int]]]) -> None:
        """Encode all batches that the engine will start, and release the encoder.

        An engine that keeps the encoder's outputs on the device does not use the cache, and keeps its encoder.
        """
        if not engine.inplace:
            return
        for sources in batches:
            engine.start(sources)
        if self.encoder is not None:
            self.encoder.session = None


@dataclass(frozen=True)
class CachedOutput:
    """Name and shape of an output; onnxruntime's own object would keep the session in memory."""

    name: str
    shape: list[str | int]


class CachedEncoder:
    """A session that runs each input once and then reads its outputs from a file."""

    def __init__(self, session: "InferenceSession", folder: Path) -> None:
        self.session: InferenceSession | None = session
        self.outputs = [CachedOutput(one.name, one.shape) for one in session.get_outputs()]
        self.folder = folder
        self.files: dict[object, Path] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def get_outputs(self) -> list[Any]:
        return self.outputs if self.session is None else self.session.get_outputs()

    def run(self, names: list[str] | None, feed: Feed, options: Any = None) -> list[Any]:
        key = names and tuple(names), tuple((name, array.shape, array.tobytes()) for name, array in feed.items())
        if self.session is not None and key not in self.files:
            self.files[key] = self.folder / f"encoded-{len(self.files)}"
            with self.files[key].open("wb") as file:
                for states in self.session.run(names, feed, options):
                    np.save(file, states)
        with self.files[key].open("rb") as file:
            return [np.load(file) for _ in names or self.outputs]
