"""Something that translates ids to ids: a bundle, or a peer that the export layer knows; needs numpy."""

import importlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from seq2edge import names
from seq2edge.bench.memory import peak_memory
from seq2edge.bench.work import NO_LIMIT, Sources
from seq2edge.devices import Place
from seq2edge.generation import GenerationOptions

OURS = "seq2edge"
PEERS = ("torch", "ctranslate2", "optimum")
PEERS_MODULE = "seq2edge_export.peers"  # looked up by name: the runtime does not need the export layer


class Answer(NamedTuple):
    """The output tokens of a batch, end token included where it came, and the seconds that they took."""

    outputs: Sources
    seconds: float


class System(Protocol):
    """A loaded model."""

    def translate(self, sources: Sources, options: GenerationOptions) -> Answer:
        """Search for the best output of each source, all of them as one batch."""
        ...

    def peak_memory(self) -> int | None:
        """The most bytes that its process has held in memory so far; None where the machine does not say."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class SystemPlan:
    """All that another process needs to open a system."""

    name: str
    kind: str  # OURS, or one of PEERS
    path: str
    precision: str
    size: int  # bytes on disk
    tool: str  # what runs it, with its version
    place: Place = field(default_factory=Place)
    threads: int = 1


def open_system(plan: SystemPlan) -> System:
    if plan.kind == OURS:
        return BundleSystem(plan)
    system: System = importlib.import_module(PEERS_MODULE).open_peer(plan)
    return system


class BundleSystem:
    """A bundle in onnxruntime, with the search of the runtime.

    What it needs is imported here: the memory of a peer's process is measured without.
    """

    def __init__(self, plan: SystemPlan) -> None:
        from seq2edge.bundle import load_bundle
        from seq2edge.decoding import decode
        from seq2edge.onnx_engine import OnnxEngine

        bundle = load_bundle(Path(plan.path))
        shortlist = names.SHORTLIST in bundle.manifest.files  # as translating would use it
        self.decode = decode
        self.engine = OnnxEngine(bundle, threads=plan.threads, place=plan.place, shortlist=shortlist)

    def translate(self, sources: Sources, options: GenerationOptions) -> Answer:
        started = time.perf_counter()
        most_rows = self.engine.most_rows  # a batch of more is divided, as the translator does
        found = self.decode(self.engine, sources, options, batch_tokens=NO_LIMIT, most_rows=most_rows)
        return Answer([best.tokens for best, *_ in found], time.perf_counter() - started)

    def peak_memory(self) -> int | None:
        return peak_memory()

    def close(self) -> None:
        """Nothing to let go of: sessions end with the object."""
