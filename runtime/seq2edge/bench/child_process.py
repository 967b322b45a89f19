"""Measure the load time and peak memory of one system in a fresh process.

The parent starts ``python -m seq2edge.bench.child_process`` and exchanges one JSON object in each direction with it.
The child imports only what the system itself needs, because its memory is what is measured.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from seq2edge.bench.system import SystemPlan, open_system
from seq2edge.bench.workload import Sources
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.schema import read_strict
from seq2edge.errors import Seq2EdgeError

MODULE = "seq2edge.bench.child_process"


@dataclass(frozen=True, kw_only=True)
class ChildRequest:
    """The system that the child opens, and the batches that it translates once each."""

    plan: SystemPlan
    options: GenerationOptions
    batches: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, kw_only=True)
class ChildMeasurement:
    load_seconds: float  # including imports
    peak_bytes: int | None


class ChildError(Seq2EdgeError):
    """The child process failed."""


def measure_in_child(plan: SystemPlan, options: GenerationOptions, batches: list[Sources]) -> ChildMeasurement:
    request = {"plan": asdict(plan), "options": asdict(options), "batches": batches}
    done = subprocess.run(
        [sys.executable, "-m", MODULE],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        raise ChildError(f"{plan.name} cannot be measured in its own process: {last}")
    return read_strict(ChildMeasurement, json.loads(done.stdout.splitlines()[-1]), where="the child's answer")


def measure(request: ChildRequest) -> ChildMeasurement:
    """Open the system and translate; runs in the child."""
    started = time.perf_counter()
    system = open_system(request.plan)
    loaded = time.perf_counter() - started
    for batch in request.batches:
        system.translate([list(source) for source in batch], request.options)
    peak = system.peak_memory()
    system.close()
    return ChildMeasurement(load_seconds=loaded, peak_bytes=peak)


def main() -> None:
    try:
        measurement = measure(read_strict(ChildRequest, json.load(sys.stdin), where="the request"))
    except Seq2EdgeError as error:
        sys.exit(str(error))
    sys.stdout.write(f"\n{json.dumps(asdict(measurement))}\n")


if __name__ == "__main__":
    main()
