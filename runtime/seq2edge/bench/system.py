"""Something that translates ids to ids: a bundle, or a peer that the export layer knows.

The most memory that this process has held.
"""

import importlib
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from seq2edge.bench.workload import NO_LIMIT, Sources
from seq2edge.bundle import tensor_names
from seq2edge.config.generation import GenerationOptions
from seq2edge.devices.registry import DeviceConfig

STATUS = Path("/proc/self/status")


def peak_memory(status: Path = STATUS) -> int | None:
    """Bytes; None where the system does not say.

    Linux's ``ru_maxrss`` is not asked: a child begins with the peak of its parent there.
    """
    if status.exists():
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return None


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
    device_config: DeviceConfig = field(default_factory=DeviceConfig)
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
        from seq2edge.bundle.bundle import load_bundle
        from seq2edge.engine.engine import OnnxEngine
        from seq2edge.search.batch_decode import decode

        bundle = load_bundle(Path(plan.path))
        shortlist = tensor_names.SHORTLIST in bundle.manifest.files  # as translating would use it
        self.decode = decode
        self.engine = OnnxEngine(bundle, threads=plan.threads, device_config=plan.device_config, shortlist=shortlist)

    def translate(self, sources: Sources, options: GenerationOptions) -> Answer:
        started = time.perf_counter()
        most_rows = self.engine.most_rows  # a batch of more is divided, as the translator does
        found = self.decode(self.engine, sources, options, batch_tokens=NO_LIMIT, most_rows=most_rows)
        return Answer([best.tokens for best, *_ in found], time.perf_counter() - started)

    def peak_memory(self) -> int | None:
        return peak_memory()

    def close(self) -> None:
        """Nothing to let go of: sessions end with the object."""
