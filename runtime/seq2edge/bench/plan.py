"""Plan which bundles and peers are measured, and which of them are compared with each other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from seq2edge.bench.system import OURS, PeerModule, PeerRequest, SystemPlan
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, Bundle, load_bundle
from seq2edge.devices.execution_providers import runtime_release
from seq2edge.devices.registry import DeviceConfig
from seq2edge.errors import UsageError

PEER_GROUP = "seq2edge.peers"  # entry points: the name of a peer and its module
# The precision in which a peer is compared with a bundle, if the peer has it.
PEER_PRECISION = {
    "fp32": "fp32",
    "fp16": "fp32",
    "fp16-compute": "fp32",
    "int8": "int8",
    "int4": "int8",
    "mixed": "int8",
}


@dataclass(frozen=True, kw_only=True)
class Peers:
    """Which other tools to measure, and the checkpoint to convert for them."""

    names: tuple[str, ...] = ()
    checkpoint: Path | None = None
    optimum_python: Path | None = None  # the interpreter of an environment with optimum-onnx

    def __post_init__(self) -> None:
        if not self.names:
            return
        known = installed_peers()
        unknown = [name for name in self.names if name not in known]
        if unknown:
            raise UsageError(f"there is no peer {unknown[0]!r}; known peers: {', '.join(sorted(known)) or 'none'}")
        if self.checkpoint is None:
            raise UsageError(
                f"{self.names[0]} needs the checkpoint that the bundle was made from: name it with --checkpoint"
            )


def installed_peers() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=PEER_GROUP)}


def load_bundles(paths: Sequence[Path], require_signature: Path | None = None) -> list[Bundle]:
    return [load_bundle(path, require_signature=require_signature) for path in paths or (DEFAULT_BUNDLE,)]


def plan_bundles(bundles: Sequence[Bundle]) -> list[SystemPlan]:
    return [
        SystemPlan(
            name=name,
            kind=OURS,
            path=str(bundle.folder),
            precision=bundle.manifest.precision,
            size=bundle.size,
            tool=runtime_release(),
        )
        for name, bundle in zip(_names(bundles), bundles, strict=True)
    ]


def plan_peers(peers: Peers, bundles: Sequence[Bundle], folder: Path) -> list[SystemPlan]:
    """Let each peer convert the checkpoint into a subfolder of ``folder``."""
    precisions = tuple(sorted({PEER_PRECISION[bundle.manifest.precision] for bundle in bundles}))
    known, plans = installed_peers() if peers.names else {}, list[SystemPlan]()
    for name in peers.names:
        assert peers.checkpoint is not None
        (folder / name).mkdir()
        request = PeerRequest(
            checkpoint=peers.checkpoint,
            bundles=tuple(bundles),
            precisions=precisions,
            folder=folder / name,
            optimum_python=peers.optimum_python,
        )
        module: PeerModule = known[name].load()
        plans += module.prepare(request)
    return plans


def on_devices(plans: Sequence[SystemPlan], device_configs: Sequence[DeviceConfig], threads: int) -> list[SystemPlan]:
    """Return the plans of every system on every device, all systems of the first device first."""
    return [
        replace(plan, name=name_on(plan, device_config, device_configs), device_config=device_config, threads=threads)
        for device_config in device_configs
        for plan in plans
    ]


def name_on(plan: SystemPlan, device_config: DeviceConfig, device_configs: Sequence[DeviceConfig]) -> str:
    """Return the name of a system, with its device if there are several."""
    return plan.name if len(device_configs) == 1 else f"{plan.name}, {device_config.device}"


def baselines_of(plan: SystemPlan, plans: Sequence[SystemPlan]) -> dict[str, SystemPlan]:
    """Return the systems that a bundle is compared with, by column title: the peers, or without any, the first bundle.

    Of each peer, the system in the precision nearest to the bundle's is chosen.
    """
    peers = [other for other in plans if other.kind != OURS]
    if plan.kind != OURS:
        return {}
    if not peers:
        return {plans[0].name: plans[0]} if plan is not plans[0] else {}
    chosen: dict[str, SystemPlan] = {}
    for peer in peers:
        if peer.kind not in chosen or peer.precision == PEER_PRECISION[plan.precision]:
            chosen[peer.kind] = peer
    return chosen


def _names(bundles: Sequence[Bundle]) -> list[str]:
    """Name bundles after their folders, or their whole paths if folder names are ambiguous, and their precision."""
    short = [_with_precision(bundle.folder.resolve().name, bundle) for bundle in bundles]
    if len(set(short)) == len(short):
        return short
    return [_with_precision(str(bundle.folder), bundle) for bundle in bundles]


def _with_precision(name: str, bundle: Bundle) -> str:
    precision = bundle.manifest.precision
    return name if precision in name else f"{name} {precision}"
