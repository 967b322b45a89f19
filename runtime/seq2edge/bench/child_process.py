"""Load time and peak memory of one system in a process of its own, where nothing else can hide them.

The parent starts ``python -m seq2edge.bench.child_process``, writes a request to it and reads the
answer, both one JSON object.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from seq2edge.bench.system import SystemPlan, open_system
from seq2edge.bench.workload import Sources
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.schema import read_closed
from seq2edge.errors import Seq2EdgeError

MODULE = "seq2edge.bench.child_process"


@dataclass(frozen=True, kw_only=True)
class ChildRequest:
    """What the child has to do: open the system and translate each batch once."""

    plan: SystemPlan
    options: GenerationOptions
    batches: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, kw_only=True)
class ChildMeasurement:
    """What a fresh process needs to load a system, imports included, and what it holds at most when it translates."""

    load_seconds: float
    peak_bytes: int | None


class ChildError(Seq2EdgeError):
    """The child could not do it."""


def measure_in_child(plan: SystemPlan, options: GenerationOptions, batches: list[Sources]) -> ChildMeasurement:
    """Start the child and wait for its answer."""
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
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise ChildError(f"{plan.name} cannot be measured in a process of its own: {last}")
    return read_closed(ChildMeasurement, json.loads(done.stdout.splitlines()[-1]), where="the child's answer")


def answer(request: ChildRequest) -> ChildMeasurement:
    """The child's part."""
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
        found = answer(read_closed(ChildRequest, json.load(sys.stdin), where="the request"))
    except Seq2EdgeError as error:
        sys.exit(str(error))
    sys.stdout.write(f"\n{json.dumps(asdict(found))}\n")


if __name__ == "__main__":
    main()
