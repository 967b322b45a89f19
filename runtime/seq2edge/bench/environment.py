"""Describe the machine and the software versions of a measurement."""

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from seq2edge import __version__
from seq2edge.devices.cpu import allowed_cpus

CPU_INFO, MEMORY_INFO = Path("/proc/cpuinfo"), Path("/proc/meminfo")
# CPU features that decide which matrix multiplication kernels run, by their names in Linux.
FLAGS = (
    *("avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16", "asimd", "asimddp", "asimdhp", "i8mm", "bf16", "sve"),
)
PACKAGES = (
    *("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-webgpu", "onnxruntime-directml"),
    *("onnxruntime-ep-openvino", "onnxruntime-ep-webgpu"),
    *("numpy", "torch", "transformers", "ctranslate2", "sacrebleu"),
)


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What results depend on besides the model; unknown values are empty or null."""

    cpu: str
    flags: tuple[str, ...]
    cores: int
    allowed_cores: int
    memory_bytes: int | None
    system: str
    python: str
    versions: dict[str, str]  # of seq2edge and the installed packages
    load_average: float | None  # over the minute before the run
    time: str


def describe_environment(cpu_info: Path = CPU_INFO) -> Environment:
    fields = _fields(cpu_info)
    return Environment(
        cpu=fields.get("model name") or platform.processor() or platform.machine(),
        flags=_flags(fields),
        cores=os.cpu_count() or 1,
        allowed_cores=allowed_cpus(),
        memory_bytes=_memory(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        versions={"seq2edge": __version__, **_versions()},
        load_average=load_average(),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def load_average() -> float | None:
    """Return the average number of runnable processes over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _fields(path: Path) -> dict[str, str]:
    """Read the fields of the first block of a file such as ``/proc/cpuinfo``."""
    if not path.exists():
        return {}
    first = path.read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    parts = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in parts}


def _flags(fields: dict[str, str]) -> tuple[str, ...]:
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    return tuple(flag for flag in FLAGS if flag in flags)


def _memory() -> int | None:
    total = _fields(MEMORY_INFO).get("MemTotal", "").split()
    return int(total[0]) * 1024 if total else None


def _versions() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
