"""Choose the device and precision of a training; bf16 is tested in a child process, as it can crash."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import torch

from seq2edge.devices.cpu import allowed_cpus
from seq2edge.errors import UsageError
from seq2edge_export.training.config import TrainingSettings

Device = Literal["cpu", "cuda"]
Precision = Literal["fp32", "bf16"]

PROBE = """
import time, torch
x, w = torch.randn(512, 512), torch.randn(512, 512)
def best(a, b):
    times = []
    for _ in range(8):
        start = time.perf_counter(); a @ b; times.append(time.perf_counter() - start)
    return min(times)
print(best(x, w) / best(x.bfloat16(), w.bfloat16()))
"""
MIN_BF16_SPEEDUP = 1.3  # speedup above which "auto" chooses bf16 on a CPU


def resolve_hardware(settings: TrainingSettings, saved: Mapping[str, Any]) -> TrainingSettings:
    """Replace "auto" by a device and a precision; a resumed run keeps its earlier choice in ``saved``.

    That way, it ends with the same weights.
    """
    device = _device(_resolve_auto(settings.device, saved.get("device", "auto")))
    precision = _precision(_resolve_auto(settings.precision, saved.get("precision", "auto")), device)
    return replace(settings, device=device, precision=precision)


def threads_of(settings: TrainingSettings) -> int:
    return settings.threads or allowed_cpus()


def describe(settings: TrainingSettings) -> str:
    if settings.device == "cuda":
        return f"training on {torch.cuda.get_device_name()} in {settings.precision}"
    threads = threads_of(settings)
    return f"training on the CPU in {settings.precision} with {threads} thread{'s' if threads > 1 else ''}"


def _resolve_auto(requested: str, saved: str) -> str:
    return saved if requested == "auto" else requested


def _device(requested: str) -> Device:
    available = torch.cuda.is_available()
    if requested == "cuda" and not available:
        raise UsageError("--device cuda was requested, but PyTorch finds no usable device; use --device cpu")
    return "cuda" if available and requested != "cpu" else "cpu"


def _precision(requested: str, device: Device) -> Precision:
    """Return bf16 if it was requested and works, or if it is clearly faster."""
    if requested == "fp32":
        return "fp32"
    speedup = _bf16_speedup_on_cuda() if device == "cuda" else bf16_speedup_on_cpu()
    if requested == "bf16" and not speedup:
        raise UsageError(
            f"--precision bf16 was requested, but this {device.upper()} does not support it; use --precision fp32"
        )
    return "bf16" if requested == "bf16" or speedup > MIN_BF16_SPEEDUP else "fp32"


def _bf16_speedup_on_cuda() -> float:
    return float("inf") if torch.cuda.is_bf16_supported(including_emulation=False) else 0.0


def bf16_speedup_on_cpu() -> float:
    """Return how many times faster a bf16 product is than a float32 one; 0 if it crashes."""
    try:
        done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
        return float(done.stdout) if done.returncode == 0 else 0.0
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0.0
