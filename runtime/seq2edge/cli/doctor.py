"""What this machine can do, found out by trying.

Every provider runs a small graph in a process of its own, so a driver that crashes does not take this one down.

``seq2edge doctor``: which devices work here, and what to run how.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import click

from seq2edge.bench.environment import Environment, describe_environment
from seq2edge.devices.auto import MARGIN, SLOW_TO_START, fastest
from seq2edge.devices.execution_providers import (
    cuda_libraries,
    is_built_in,
    is_installed,
    load_onnxruntime,
    runtime_release,
)
from seq2edge.devices.memory import NO_LIMIT, container_memory
from seq2edge.devices.probe import Probe, probe
from seq2edge.devices.registry import CPU, DEVICES, Device
from seq2edge.errors import MissingExtraError

# What a feature is good for, and the flags that say that it is there; Linux's names.
FEATURES = {
    "AVX2": ("avx2", "asimd"),
    "AVX-512": ("avx512f",),
    "VNNI": ("avx512_vnni", "avx_vnni", "asimddp", "i8mm"),
    "AMX": ("amx_tile",),
    "bf16": ("avx512_bf16", "amx_bf16", "bf16"),
}
SMALL_MEMORY = 512 << 20  # where 4 bits instead of 8 are worth their loss


@dataclass(frozen=True, kw_only=True)
class DeviceReport:
    """One device: whether its provider is there, and what came of trying it."""

    name: str
    provider: str
    offered: str  # built in, plugin, or empty: not installed
    works: bool
    milliseconds: float | None  # of some matrix products, copies included
    problem: str
    workaround: str


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to export and how to run it on this machine."""

    device: str
    precision: str
    dialect: str
    threads: int  # for one sentence at a time, with one worker
    workers: int  # for many sentences, with one thread each


@dataclass(frozen=True, kw_only=True)
class Health:
    """All that ``seq2edge doctor`` knows."""

    machine: Environment
    memory_limit: int | None  # bytes, of the container; null: none
    features: dict[str, bool]
    runtime: str  # the package of onnxruntime; empty: none is installed
    hardware: tuple[str, ...]  # what onnxruntime sees
    devices: tuple[DeviceReport, ...]
    libraries: dict[str, bool]  # of CUDA and cuDNN, and whether each can be loaded; empty where nothing needs them
    advice: Advice


def examine(*, ask: Callable[[Device], Probe] = probe, say: Callable[[str], None] = lambda _: None) -> Health:
    """Look at everything; ``say`` is told which device is tried."""
    machine = describe_environment()
    runtime = _runtime()
    probes = {device: _ask(device, ask, say) for device in DEVICES.values() if runtime and is_installed(device)}
    limit = container_memory()
    return Health(
        machine=machine,
        memory_limit=limit,
        features={name: any(flag in machine.flags for flag in flags) for name, flags in FEATURES.items()},
        runtime=runtime,
        hardware=tuple(_hardware()) if runtime else (),
        devices=tuple(_report(device, probes.get(device)) for device in DEVICES.values()),
        libraries=cuda_libraries(),
        advice=advise(probes, machine, limit),
    )


def advise(probes: dict[Device, Probe], machine: Environment, limit: int | None) -> Advice:
    """The device that ``auto`` would take, and what runs best there."""
    tried = {device: found for device, found in probes.items() if device.name not in SLOW_TO_START}
    device = fastest({one: found for one, found in tried.items() if one is CPU or not one.is_host})
    if device is not CPU:
        return Advice(device=device.name, precision="fp16", dialect="portable", threads=1, workers=1)
    memory = min(size for size in (limit, machine.memory_bytes, NO_LIMIT) if size is not None)
    precision, cpus = "int4" if memory < SMALL_MEMORY else "int8", machine.allowed_cores
    return Advice(device="cpu", precision=precision, dialect="ort", threads=cpus, workers=cpus)


def describe(health: Health) -> str:
    """The same for people."""
    machine = health.machine
    memory = "unknown" if machine.memory_bytes is None else f"{machine.memory_bytes / 1e9:.1f} GB"
    limit = "" if health.memory_limit is None else f", the container may use {health.memory_limit / 1e9:.1f} GB"
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    features = ", ".join(f"{name} {'yes' if there else 'no'}" for name, there in health.features.items())
    rows = [
        ("versions", f"{versions}, Python {machine.python}"),
        ("system", machine.system),
        ("CPU", f"{machine.cpu}, {machine.cores} cores, this process may use {machine.allowed_cores}"),
        ("CPU features", features),
        ("memory", memory + limit),
        ("onnxruntime", health.runtime or "not installed: run  pip install 'seq2edge[cpu]'"),
        ("hardware it sees", "; ".join(health.hardware) or "nothing but what the devices below show"),
        *((f"device {report.name}", _state(report)) for report in health.devices),
        *_library_rows(health.libraries),
        ("advice", _advice_text(health.advice)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _ask(device: Device, ask: Callable[[Device], Probe], say: Callable[[str], None]) -> Probe:
    say(f"trying {device.name}")
    return ask(device)


def _runtime() -> str:
    try:
        return runtime_release()
    except MissingExtraError:
        return ""


def _hardware() -> list[str]:
    runtime: Any = load_onnxruntime()
    if not hasattr(runtime, "get_ep_devices"):
        return []
    found = [one.device for one in runtime.get_ep_devices()]
    return list(dict.fromkeys(f"{one.vendor} {one.type.name}".strip() for one in found))


def _report(device: Device, found: Probe | None) -> DeviceReport:
    if found is None:
        found = Probe(works=False, problem=f"not installed: {device.install}")
        offered = ""
    else:
        offered = "built in" if is_built_in(device) else "plugin"
    return DeviceReport(
        name=device.name,
        provider=device.provider,
        offered=offered,
        works=found.works,
        milliseconds=found.milliseconds,
        problem=found.problem,
        workaround=found.workaround,
    )


def _state(report: DeviceReport) -> str:
    if report.works:
        return f"works ({report.offered}): {report.milliseconds} ms for the trial products"
    helps = f"; {report.workaround}" if report.workaround else ""
    offered = f"does not work ({report.offered}): " if report.offered else ""
    return f"{offered}{report.problem}{helps}"


def _library_rows(libraries: dict[str, bool]) -> list[tuple[str, str]]:
    if not libraries:
        return []
    found = [name for name, there in libraries.items() if there]
    missing = [name for name, there in libraries.items() if not there]
    return [("CUDA libraries", f"found: {', '.join(found) or 'none'}; missing: {', '.join(missing) or 'none'}")]


def _advice_text(advice: Advice) -> str:
    made = f"seq2edge export CHECKPOINT BUNDLE --precision {advice.precision} --dialect {advice.dialect}"
    if advice.device == CPU.name:
        return f"{made}; --threads {advice.threads} for one sentence at a time, --workers {advice.workers} for many"
    return f"{made}; --device {advice.device}, which is at least {MARGIN:g} times as fast as the CPU here"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def command(as_json: bool) -> None:
    """Say what this machine can do: versions, CPU, memory, and every device that onnxruntime offers, each tried."""
    from seq2edge.cli.progress import stages

    with stages() as say:
        health = examine(say=say)
    click.echo(json.dumps(asdict(health), indent=2, ensure_ascii=False) if as_json else describe(health))
