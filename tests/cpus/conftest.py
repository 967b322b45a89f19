"""The CPUs that are emulated, and what the light wheel gives on each of them.

``make test-cpus`` creates build/cpus and runs these tests. qemu-user emulates single programs: Python runs with the
real wheels of onnxruntime, which choose their kernels by what the emulated CPU says that it can do.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "cpus"
NATIVE = "this machine"
BASE_PYTHON = str(Path(sys.executable).resolve())


@dataclass(frozen=True)
class EmulatedCpu:
    """A CPU model of qemu; ``part`` is the ARM part number, which onnxruntime reads to recognize slow cores."""

    name: str
    what: str
    part: str | None = None
    saturates: bool = False  # adds two products of bytes in 16 bits

    def command(self) -> list[str]:
        if self.name == NATIVE:
            return [BASE_PYTHON]
        if self.part is None:
            return ["qemu-x86_64", "-cpu", self.name, BASE_PYTHON]
        return ["qemu-aarch64", "-L", str(FOLDER / "arm64"), "-cpu", self.name, f"{FOLDER}/arm64/usr/bin/python3"]

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run Python with the light wheel and nothing else."""
        if self.part is not None:
            write_cpuinfo(self.part)
        packages = FOLDER / ("arm64-packages" if self.part else "x86_64-packages")
        return subprocess.run(
            [*self.command(), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(packages), "ORT_DISABLE_TELEMETRY": "1"},
        )


CPUS = (
    EmulatedCpu("Haswell", "x86-64, AVX2 without AVX-512 and VNNI", saturates=True),
    EmulatedCpu("Nehalem", "x86-64, SSE4.2 without AVX"),
    EmulatedCpu("cortex-a72", "arm64, Raspberry Pi 4", part="0xd08"),
    EmulatedCpu("cortex-a76", "arm64 with dot products, Raspberry Pi 5", part="0xd0b"),
    EmulatedCpu("max", "arm64 with everything qemu has, such as i8mm and SVE", part="0xd40"),
)


def write_cpuinfo(part: str) -> None:
    """Write the /proc/cpuinfo of an ARM CPU; onnxruntime crashes on that of another architecture."""
    lines = ("CPU implementer\t: 0x41", "CPU architecture: 8", "CPU variant\t: 0x0", f"CPU part\t: {part}")
    cores = (f"processor\t: {core}\n" + "\n".join(lines) + "\nCPU revision\t: 3\n\n" for core in range(2))
    (FOLDER / "arm64" / "proc" / "cpuinfo").write_text("".join(cores))


@cache
def results_on(cpu: EmulatedCpu) -> dict[str, Any]:
    """Run guest.py on a CPU, once."""
    output = FOLDER / f"{cpu.name.replace(' ', '-')}.json"
    output.unlink(missing_ok=True)
    done = cpu.run(Path(__file__).with_name("guest.py"), FOLDER, output)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(output.read_text())
    return found


@pytest.fixture(scope="session")
def native() -> dict[str, Any]:
    assert (FOLDER / "ready").is_file(), "run  make test-cpus, which prepares build/cpus"
    return results_on(EmulatedCpu(NATIVE, "not emulated"))


@pytest.fixture(scope="session", params=CPUS, ids=lambda cpu: cpu.name)
def cpu(request: pytest.FixtureRequest) -> EmulatedCpu:
    assert (FOLDER / "ready").is_file(), "run  make test-cpus, which prepares build/cpus"
    found: EmulatedCpu = request.param
    return found


@pytest.fixture(scope="session")
def emulated(cpu: EmulatedCpu, native: dict[str, Any], pytestconfig: pytest.Config) -> dict[str, Any]:
    found = results_on(cpu)
    pytestconfig.stash.setdefault(ROWS, []).extend(report_rows(cpu, found, native))
    return found


ROWS = pytest.StashKey[list[str]]()
TITLE = "| CPU | bundle | same tokens as natively | largest score difference | alone = in a batch: tokens, scores |"


def report_rows(cpu: EmulatedCpu, found: dict[str, Any], native: dict[str, Any]) -> list[str]:
    """Compare with the results of this machine, in rows of a table."""
    rows = []
    for bundle, by_beams in found["translations"].items():
        ours = [one for beams in by_beams.values() for one in beams["together"]]
        alone = [one for beams in by_beams.values() for one in beams["alone"]]
        theirs = [one for beams in native["translations"][bundle].values() for one in beams["together"]]
        equal = [(one, two) for one, two in zip(ours, theirs, strict=True) if one["tokens"] == two["tokens"]]
        apart = max((abs(one["score"] - two["score"]) for one, two in equal), default=float("nan"))
        tokens, bits = (sum(a[key] == b[key] for a, b in zip(ours, alone, strict=True)) for key in ("tokens", "score"))
        of = len(ours)
        rows.append(f"| {cpu.name} | {bundle} | {len(equal)} of {of} | {apart:.1e} | {tokens} and {bits} of {of} |")
    saturates = ", ".join(name for name, exact in found["products"].items() if not exact) or "none"
    return [*rows, f"| {cpu.name} | integer products that saturate: {saturates} | | | |"]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = config.stash.get(ROWS, [])
    if rows:
        terminalreporter.write_line("\n".join([TITLE, "|---|---|---|---|---|", *rows]))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cpus)
