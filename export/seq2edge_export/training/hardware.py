"""Choose device and precision, finding out in a child process what the hardware really can."""

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
WORTH_IT = 1.3  # times faster that bf16 must be on a CPU to be chosen


def resolve_hardware(settings: TrainingSettings, before: Mapping[str, Any]) -> TrainingSettings:
    """Put a device and a precision in the place of "auto"; ``before`` has those of a run to be resumed.

    A resumed run keeps what was once chosen, so that it ends with the same weights.
    """
    device = _device(_asked(settings.device, before.get("device", "auto")))
    precision = _precision(_asked(settings.precision, before.get("precision", "auto")), device)
    return replace(settings, device=device, precision=precision)


def use_threads(threads: int) -> None:
    torch.set_num_threads(threads or allowed_cpus())


def describe(settings: TrainingSettings) -> str:
    if settings.device == "cuda":
        return f"training on {torch.cuda.get_device_name()} in {settings.precision}"
    threads = torch.get_num_threads()
    return f"training on the CPU in {settings.precision} with {threads} thread{'s' if threads > 1 else ''}"


def _asked(now: str, before: str) -> str:
    return before if now == "auto" else now


def _device(asked: str) -> Device:
    found = torch.cuda.is_available()
    if asked == "cuda" and not found:
        raise UsageError("training on CUDA was asked for, but this PyTorch finds no usable device; use --device cpu")
    return "cuda" if found and asked != "cpu" else "cpu"


def _precision(asked: str, device: Device) -> Precision:
    """bf16 where it was asked for and works, or where it works and pays."""
    if asked == "fp32":
        return "fp32"
    speedup = _bf16_speedup_on_cuda() if device == "cuda" else bf16_speedup_on_cpu()
    if asked == "bf16" and not speedup:
        raise UsageError(f"training in bf16 was asked for, but this {device.upper()} cannot; use --precision fp32")
    return "bf16" if asked == "bf16" or speedup > WORTH_IT else "fp32"


def _bf16_speedup_on_cuda() -> float:
    return float("inf") if torch.cuda.is_bf16_supported(including_emulation=False) else 0.0


def bf16_speedup_on_cpu() -> float:
    """How many times faster a bf16 product is than a float32 one; 0 where it kills the process."""
    try:
        done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
        return float(done.stdout) if done.returncode == 0 else 0.0
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0.0
