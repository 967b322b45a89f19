"""Try whether a device works, in a separate process because a driver may crash.

The parent starts ``python -m seq2edge.devices.probe DEVICE`` and reads a JSON object from the last line of its output.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from seq2edge.config.schema import SchemaError, read_strict
from seq2edge.devices import topk_graphs
from seq2edge.devices.cpu import allowed_cpus
from seq2edge.devices.registry import Device, DeviceConfig, device_named
from seq2edge.devices.session import open_session, run_on_device
from seq2edge.errors import Seq2EdgeError

MODULE = "seq2edge.devices.probe"
TIMEOUT = 120  # seconds, more than any driver needs to start
ROWS, WIDTH = 64, 512
ROUNDS = 5
TOLERANCE = 1e-4  # relative to the largest value: float32 is far below, bfloat16 and TF32 are above 1e-3


@dataclass(frozen=True, kw_only=True)
class ProbeOutput:
    """The results of the trial graph."""

    milliseconds: float  # of some matrix products with 64 rows, best of a few rounds
    difference: float  # from numpy, relative to the largest value


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Whether a device works, and if not, the problem and a workaround."""

    works: bool
    milliseconds: float | None = None
    problem: str = ""
    workaround: str = ""


def probe(device: Device) -> Probe:
    """Try a device in a child process; after an illegal instruction, try again with the workaround."""
    first = run_child([sys.executable, "-m", MODULE, device.name])
    if "SIGILL" not in first.problem or not device.environment:
        return first
    setting = " ".join(f"{name}={value}" for name, value in device.environment.items())
    second = run_child([sys.executable, "-m", MODULE, device.name], device.environment)
    outcome = "helps" if second.works else "was tried, but does not help"
    return Probe(works=False, problem=first.problem, workaround=f"{setting} in the environment {outcome}")


def run_child(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Probe:
    """Return what a child process reports, or how it ended."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=TIMEOUT,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired:
        return Probe(works=False, problem=f"it did not answer within {TIMEOUT} seconds")
    if done.returncode < 0:
        return Probe(works=False, problem=_describe_signal(-done.returncode))
    try:
        return read_strict(Probe, json.loads(done.stdout.splitlines()[-1]), where="the child's answer")
    except (IndexError, ValueError, SchemaError):
        last = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        return Probe(works=False, problem=f"its process ended with code {done.returncode} ({last})")


def trial(device: Device) -> ProbeOutput:
    """Run some matrix products on a device and compare the result with numpy."""
    session = open_session(topk_graphs.TRIAL, threads=allowed_cpus(), device_config=DeviceConfig(device=device.name))
    random = np.random.default_rng(0)
    left = random.standard_normal((ROWS, WIDTH)).astype(np.float32)
    right = (random.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32)
    inputs, seconds = {topk_graphs.LEFT: left, topk_graphs.RIGHT: right}, list[float]()
    for _ in range(1 + ROUNDS):  # the first warms up
        started = time.perf_counter()
        outputs = run_on_device(session, inputs, memory=device.memory, fetched=(topk_graphs.PRODUCT,))
        seconds.append(time.perf_counter() - started)
    expected = left.astype(np.float64) @ np.linalg.matrix_power(right.astype(np.float64), topk_graphs.PRODUCTS)
    difference = float(np.abs(outputs[topk_graphs.PRODUCT] - expected).max() / np.abs(expected).max())
    return ProbeOutput(milliseconds=1e3 * min(seconds[1:]), difference=difference)


def probe_here(device: Device) -> Probe:
    """Try a device in this process; runs in the child."""
    try:
        output = trial(device)
    except Seq2EdgeError as error:
        return Probe(works=False, problem=str(error))
    except Exception as error:  # a provider may fail in any way
        first = next(iter(str(error).strip().splitlines()), "")
        return Probe(works=False, problem=f"{type(error).__name__}: {first}")
    if not output.difference <= TOLERANCE:
        problem = f"its results differ from float32 by {output.difference:.1g} relative to the largest value"
        return Probe(works=False, milliseconds=output.milliseconds, problem=problem)
    return Probe(works=True, milliseconds=round(output.milliseconds, 3))


def _describe_signal(number: int) -> str:
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    what = {"SIGILL": "an illegal instruction", "SIGSEGV": "an invalid memory access", "SIGABRT": "an abort"}
    return f"it crashes with {what.get(name, 'a signal')} ({name})"


if __name__ == "__main__":
    print(json.dumps(asdict(probe_here(device_named(sys.argv[1])))))  # noqa: T201
