"""Choose device and precision, finding out in a child process what the hardware really can; needs torch."""

import os
import subprocess
import sys

import torch
from seq2edge.errors import UsageError

from seq2edge_export.training.settings import TrainingSettings

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


def choose_device(settings: TrainingSettings) -> torch.device:
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda was asked for, but this PyTorch finds no usable CUDA device; use --device cpu")
    if settings.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(settings.device)


def choose_bf16(settings: TrainingSettings, device: torch.device) -> bool:
    """Whether to compute in bf16: where it was asked for, or where it works and pays."""
    if settings.precision != "auto":
        return settings.precision == "bf16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return bf16_speedup_on_cpu() > 1.3


def bf16_speedup_on_cpu() -> float:
    """How many times faster a bf16 product is than a float32 one; 0 where it kills the process."""
    try:
        done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
        return float(done.stdout) if done.returncode == 0 else 0.0
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0.0


def set_threads(threads: int) -> None:
    torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
