"""Find out whether a device really works, in a process of its own that may crash.

The parent starts ``python -m seq2edge.devices.probe DEVICE`` and reads one JSON object from the last line of its
output.
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
SECONDS = 120  # more than any driver needs to start
ROWS, WIDTH = 64, 512
ROUNDS = 5
TOLERANCE = 1e-4  # of the largest number: float32 stays far below, bfloat16 and tensor cores are above 1e-3


@dataclass(frozen=True, kw_only=True)
class ProbeOutput:
    """What the trial graph has shown."""

    milliseconds: float  # of some products of 64 rows, best of a few rounds
    difference: float  # from numpy, relative to the largest number


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Whether a device works, and if not, what is wrong and what helps."""

    works: bool
    milliseconds: float | None = None
    problem: str = ""
    workaround: str = ""


def probe(device: Device) -> Probe:
    """Let a child try the device; if an illegal instruction kills it, let another try with the workaround."""
    found = ask_child([sys.executable, "-m", MODULE, device.name])
    if "SIGILL" not in found.problem or not device.environment:
        return found
    setting = " ".join(f"{name}={value}" for name, value in device.environment.items())
    again = ask_child([sys.executable, "-m", MODULE, device.name], device.environment)
    works = "works" if again.works else "was tried, but does not help"
    return Probe(works=False, problem=found.problem, workaround=f"{setting} in the environment {works}")


def ask_child(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Probe:
    """What a child says, or how it died."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=SECONDS,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired:
        return Probe(works=False, problem=f"it did not answer within {SECONDS} seconds")
    if done.returncode < 0:
        return Probe(works=False, problem=_death(-done.returncode))
    try:
        found = read_strict(Probe, json.loads(done.stdout.splitlines()[-1]), where="the child's answer")
    except (IndexError, ValueError, SchemaError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return Probe(works=False, problem=f"its process ended with code {done.returncode} ({last})")
    return found


def trial(device: Device) -> ProbeOutput:
    """Run some matrix products on a device, and compare them with numpy's."""
    session = open_session(topk_graphs.TRIAL, threads=allowed_cpus(), device_config=DeviceConfig(device=device.name))
    random = np.random.default_rng(0)
    left = random.standard_normal((ROWS, WIDTH)).astype(np.float32)
    right = (random.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32)
    given, seconds = {topk_graphs.LEFT: left, topk_graphs.RIGHT: right}, list[float]()
    for _ in range(1 + ROUNDS):  # the first warms up
        started = time.perf_counter()
        found = run_on_device(session, given, memory=device.memory, fetched=(topk_graphs.PRODUCT,))
        seconds.append(time.perf_counter() - started)
    wanted = left.astype(np.float64) @ np.linalg.matrix_power(right.astype(np.float64), topk_graphs.PRODUCTS)
    difference = float(np.abs(found[topk_graphs.PRODUCT] - wanted).max() / np.abs(wanted).max())
    return ProbeOutput(milliseconds=1e3 * min(seconds[1:]), difference=difference)


def answer(device: Device) -> Probe:
    """The child's part."""
    try:
        found = trial(device)
    except Seq2EdgeError as error:
        return Probe(works=False, problem=str(error))
    except Exception as error:  # a provider may fail in any way
        first = next(iter(str(error).strip().splitlines()), "")
        return Probe(works=False, problem=f"{type(error).__name__}: {first}")
    if not found.difference <= TOLERANCE:
        problem = f"its results differ from float32 by {found.difference:.1g} of the largest number"
        return Probe(works=False, milliseconds=found.milliseconds, problem=problem)
    return Probe(works=True, milliseconds=round(found.milliseconds, 3))


def _death(number: int) -> str:
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    what = {"SIGILL": "an illegal instruction", "SIGSEGV": "a wrong memory access", "SIGABRT": "an abort"}
    return f"it crashes with {what.get(name, 'a signal')} ({name})"


if __name__ == "__main__":
    print(json.dumps(asdict(answer(device_named(sys.argv[1])))))  # noqa: T201
