"""``seq2edge doctor``: find out which devices work on a machine by trying them, and recommend settings.

Each device runs a small graph in a separate process, so that a crashing driver does not end this one.
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

# CPU features and the flags that show them, by their names in Linux.
FEATURES = {
    "AVX2": ("avx2", "asimd"),
    "AVX-512": ("avx512f",),
    "VNNI": ("avx512_vnni", "avx_vnni", "asimddp", "i8mm"),
    "AMX": ("amx_tile",),
    "bf16": ("avx512_bf16", "amx_bf16", "bf16"),
}
SMALL_MEMORY = 512 << 20  # below this, int4 is recommended instead of int8


@dataclass(frozen=True, kw_only=True)
class DeviceReport:
    """Whether the provider of a device is installed, and the result of trying it."""

    name: str
    provider: str
    offered: str  # built in, plugin, or empty if not installed
    works: bool
    milliseconds: float | None  # of some matrix products, including copies
    problem: str
    workaround: str


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The recommended bundle and options for a machine."""

    device: str
    precision: str
    dialect: str
    threads: int  # for one sentence at a time, with one worker
    workers: int  # for many sentences, with one thread each


@dataclass(frozen=True, kw_only=True)
class Health:
    """Everything that ``seq2edge doctor`` reports."""

    machine: Environment
    memory_limit: int | None  # of the container in bytes; null: none
    features: dict[str, bool]
    runtime: str  # the installed package of onnxruntime, or empty
    hardware: tuple[str, ...]  # detected by onnxruntime
    devices: tuple[DeviceReport, ...]
    libraries: dict[str, bool]  # of CUDA and cuDNN, and whether each can be loaded; empty if not needed
    advice: Advice


def examine(
    *, try_device: Callable[[Device], Probe] = probe, progress: Callable[[str], None] = lambda _: None
) -> Health:
    """Examine this machine; ``progress`` is called with the name of each stage."""
    machine = describe_environment()
    runtime = _runtime()
    probes = {}
    for device in DEVICES.values():
        if runtime and is_installed(device):
            progress(f"trying {device.name}")
            probes[device] = try_device(device)
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
    """Recommend the device that ``auto`` would choose, and what runs best on it."""
    tried = {device: result for device, result in probes.items() if device.name not in SLOW_TO_START}
    device = fastest({one: result for one, result in tried.items() if one is CPU or not one.is_host})
    if device is not CPU:
        return Advice(device=device.name, precision="fp16", dialect="portable", threads=1, workers=1)
    memory = min(size for size in (limit, machine.memory_bytes, NO_LIMIT) if size is not None)
    precision, cpus = "int4" if memory < SMALL_MEMORY else "int8", machine.allowed_cores
    return Advice(device="cpu", precision=precision, dialect="ort", threads=cpus, workers=cpus)


def describe(health: Health) -> str:
    """Return a report for people."""
    machine = health.machine
    memory = "unknown" if machine.memory_bytes is None else f"{machine.memory_bytes / 1e9:.1f} GB"
    limit = "" if health.memory_limit is None else f", the container may use {health.memory_limit / 1e9:.1f} GB"
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    features = ", ".join(f"{name} {'yes' if present else 'no'}" for name, present in health.features.items())
    rows = [
        ("versions", f"{versions}, Python {machine.python}"),
        ("system", machine.system),
        ("CPU", f"{machine.cpu}, {machine.cores} cores, this process may use {machine.allowed_cores}"),
        ("CPU features", features),
        ("memory", memory + limit),
        ("onnxruntime", health.runtime or "not installed: run  pip install 'seq2edge[cpu]'"),
        ("hardware", "; ".join(health.hardware) or "not reported"),
        *((f"device {report.name}", _state(report)) for report in health.devices),
        *_library_rows(health.libraries),
        ("advice", _advice_text(health.advice)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _runtime() -> str:
    try:
        return runtime_release()
    except MissingExtraError:
        return ""


def _hardware() -> list[str]:
    runtime: Any = load_onnxruntime()
    if not hasattr(runtime, "get_ep_devices"):
        return []
    devices = [one.device for one in runtime.get_ep_devices()]
    return list(dict.fromkeys(f"{one.vendor} {one.type.name}".strip() for one in devices))


def _report(device: Device, result: Probe | None) -> DeviceReport:
    if result is None:
        result = Probe(works=False, problem=f"not installed: {device.install}")
        offered = ""
    else:
        offered = "built in" if is_built_in(device) else "plugin"
    return DeviceReport(
        name=device.name,
        provider=device.provider,
        offered=offered,
        works=result.works,
        milliseconds=result.milliseconds,
        problem=result.problem,
        workaround=result.workaround,
    )


def _state(report: DeviceReport) -> str:
    if report.works:
        return f"works ({report.offered}): {report.milliseconds} ms for a trial of matrix products"
    workaround = f"; {report.workaround}" if report.workaround else ""
    offered = f"does not work ({report.offered}): " if report.offered else ""
    return f"{offered}{report.problem}{workaround}"


def _library_rows(libraries: dict[str, bool]) -> list[tuple[str, str]]:
    if not libraries:
        return []
    loaded = [name for name, can_load in libraries.items() if can_load]
    missing = [name for name, can_load in libraries.items() if not can_load]
    return [("CUDA libraries", f"found: {', '.join(loaded) or 'none'}; missing: {', '.join(missing) or 'none'}")]


def _advice_text(advice: Advice) -> str:
    export = f"seq2edge export CHECKPOINT BUNDLE --precision {advice.precision} --dialect {advice.dialect}"
    if advice.device == CPU.name:
        return f"{export}; --threads {advice.threads} for one sentence at a time, --workers {advice.workers} for many"
    return f"{export}; --device {advice.device}, which is at least {MARGIN:g} times as fast as the CPU here"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Show versions, CPU, memory, and whether each device of onnxruntime works on this machine."""
    from seq2edge.cli.progress import stages

    with stages() as progress:
        health = examine(progress=progress)
    click.echo(json.dumps(asdict(health), indent=2, ensure_ascii=False) if as_json else describe(health))
