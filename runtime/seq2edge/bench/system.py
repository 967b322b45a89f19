"""The systems that the benchmark measures: a bundle, or a peer, which is another tool with the same weights."""

import importlib
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from seq2edge.bench.workload import NO_LIMIT, Sources
from seq2edge.bundle import tensor_names
from seq2edge.config.generation import GenerationOptions
from seq2edge.devices.registry import DeviceConfig

if TYPE_CHECKING:
    from seq2edge.bundle.bundle import Bundle

OURS = "seq2edge"
STATUS = Path("/proc/self/status")


class TimedOutputs(NamedTuple):
    """The output tokens of a batch, including end tokens, and the seconds it took."""

    outputs: Sources
    seconds: float


class System(Protocol):
    """A loaded model that translates token ids to token ids."""

    def translate(self, sources: Sources, options: GenerationOptions) -> TimedOutputs:
        """Return the best output of each source, computed as one batch."""
        ...

    def peak_memory(self) -> int | None:
        """Return the peak memory of its process in bytes, or None where the system does not report it."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class SystemPlan:
    """Everything another process needs to open a system."""

    name: str
    kind: str  # OURS, or the name of a peer
    module: str = ""  # of a peer: imported to open it
    path: str
    precision: str
    size: int  # bytes on disk
    tool: str  # name and version of the software that runs it
    device_config: DeviceConfig = field(default_factory=DeviceConfig)
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class PeerRequest:
    """What a peer needs to convert a checkpoint for itself."""

    checkpoint: Path
    bundles: "tuple[Bundle, ...]"  # all made from the checkpoint
    precisions: tuple[str, ...]  # fp32, int8
    folder: Path  # empty, to write to
    optimum_python: Path | None = None


class PeerModule(Protocol):
    """What a module offers that is registered as an entry point of the group ``seq2edge.peers``."""

    def prepare(self, request: PeerRequest) -> list[SystemPlan]:
        """Write the weights of the checkpoint in the format of the tool, and plan the systems to measure."""
        ...

    def open_peer(self, plan: SystemPlan) -> System: ...


def open_system(plan: SystemPlan) -> System:
    if plan.kind == OURS:
        return BundleSystem(plan)
    module: PeerModule = importlib.import_module(plan.module)
    return module.open_peer(plan)


class BundleSystem:
    """A bundle, run by the engine and the search of this package.

    These are imported here so that they do not add to the measured memory of a peer.
    """

    def __init__(self, plan: SystemPlan) -> None:
        from seq2edge.bundle.bundle import load_bundle
        from seq2edge.engine.engine import OnnxEngine
        from seq2edge.search.batch_decode import decode

        bundle = load_bundle(Path(plan.path))
        shortlist = tensor_names.SHORTLIST in bundle.manifest.files  # the default of the translator
        self.decode = decode
        self.engine = OnnxEngine(bundle, threads=plan.threads, device_config=plan.device_config, shortlist=shortlist)

    def translate(self, sources: Sources, options: GenerationOptions) -> TimedOutputs:
        started = time.perf_counter()
        most_rows = self.engine.most_rows  # larger batches are divided, as the translator does
        ranked = self.decode(self.engine, sources, options, batch_tokens=NO_LIMIT, most_rows=most_rows)
        return TimedOutputs([best.tokens for best, *_ in ranked], time.perf_counter() - started)

    def peak_memory(self) -> int | None:
        return peak_memory()

    def close(self) -> None:
        """Do nothing: sessions end with the object."""


def peak_memory(status: Path = STATUS) -> int | None:
    """Return the peak memory of this process in bytes, or None where the system does not report it.

    Linux's ``ru_maxrss`` is not used because a child inherits the peak of its parent there.
    """
    if status.exists():
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return None
