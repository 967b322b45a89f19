"""Which systems are measured and beside which others: bundles, and peers with their weights."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seq2edge.bench.system import OURS, PEERS_MODULE, SystemPlan
from seq2edge.bundle.bundle import EMBEDDED, Bundle, load_bundle
from seq2edge.devices.execution_providers import runtime_release
from seq2edge.devices.registry import DeviceConfig
from seq2edge.errors import UsageError

# The precision that a peer is asked for beside a bundle's; where it has only one, that is taken.
PEER_PRECISION = {
    "fp32": "fp32",
    "fp16": "fp32",
    "fp16-compute": "fp32",
    "int8": "int8",
    "int8-blocks": "int8",
    "int4": "int8",
    "mixed": "int8",
}


@dataclass(frozen=True, kw_only=True)
class Peers:
    """Which other tools to measure, and where their weights come from."""

    names: tuple[str, ...] = ()
    checkpoint: Path | None = None
    optimum_python: Path | None = None  # the interpreter of an environment with optimum-onnx

    def __post_init__(self) -> None:
        if self.names and self.checkpoint is None:
            raise UsageError(
                f"{self.names[0]} needs the weights that the bundle was made from: name them with --checkpoint"
            )


def load_bundles(paths: Sequence[Path], require_signature: Path | None = None) -> list[Bundle]:
    return [load_bundle(path, require_signature=require_signature) for path in paths or (EMBEDDED,)]


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
    """Write the weights of the checkpoint as the peers want them into ``folder``."""
    if not peers.names:
        return []
    precisions = sorted({PEER_PRECISION[bundle.manifest.precision] for bundle in bundles})
    found: list[SystemPlan] = importlib.import_module(f"{PEERS_MODULE}.interface").prepare(
        peers, bundles, precisions, folder
    )
    return found


def on_devices(plans: Sequence[SystemPlan], device_configs: Sequence[DeviceConfig], threads: int) -> list[SystemPlan]:
    """Every system on every device, the first device first; the name says where, if there are several."""
    return [
        replace(plan, name=name_on(plan, device_config, device_configs), device_config=device_config, threads=threads)
        for device_config in device_configs
        for plan in plans
    ]


def name_on(plan: SystemPlan, device_config: DeviceConfig, device_configs: Sequence[DeviceConfig]) -> str:
    return plan.name if len(device_configs) == 1 else f"{plan.name}, {device_config.device}"


def rivals_of(plan: SystemPlan, plans: Sequence[SystemPlan]) -> dict[str, SystemPlan]:
    """What a bundle is set beside, by the column that it is shown in: peers, or without any, the first bundle."""
    peers = [other for other in plans if other.kind != OURS]
    if plan.kind != OURS:
        return {}
    if not peers:
        return {plans[0].name: plans[0]} if plan is not plans[0] else {}
    wanted = PEER_PRECISION[plan.precision]
    chosen: dict[str, SystemPlan] = {}
    for peer in peers:
        if peer.kind not in chosen or peer.precision == wanted:
            chosen[peer.kind] = peer
    return chosen


def _names(bundles: Sequence[Bundle]) -> list[str]:
    """Of the folders, with the precision where they do not say it; whole paths where that is not enough."""
    short = [_with_precision(bundle.folder.resolve().name, bundle) for bundle in bundles]
    if len(set(short)) == len(short):
        return short
    return [_with_precision(str(bundle.folder), bundle) for bundle in bundles]


def _with_precision(name: str, bundle: Bundle) -> str:
    precision = bundle.manifest.precision
    return name if precision in name else f"{name} {precision}"
