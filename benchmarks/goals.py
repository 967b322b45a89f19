"""Compare the measured speed with the targets: ratios to the fastest peer, by model and setting."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from results import Row, read

OURS = "seq2edge"
ALL_CORES = "file, all cores"
COLUMNS = ("batch 1 greedy", "batch 1 beam 4", "batch 32 greedy", "batch 32 beam 4", ALL_CORES)
WORKS = {
    "default": "default en-pt",
    "opus": "OPUS-MT zh-en",
    "bergamot": "Bergamot en-pt, shortlist",
    "base": "base model",
}
INT8: dict[str, tuple[float | None, ...]] = {  # a target for each column
    "default": (1.15, 1.05, 1.05, 1.05, 1.05),
    "opus": (2.0, 2.0, 1.3, 1.2, 1.2),
    "bergamot": (1.0, None, 1.5, None, 1.5),
    "base": (2.0, 1.5, 1.2, 1.15, None),
}
FP32 = 1.0  # wherever there is an fp32 bundle
COLD_START = 0.25  # seconds at most
RESIDENT = 65  # MB at most, of a process that has loaded the default model
NOT_MEASURED = ["", "not measured"]


@dataclass(frozen=True)
class Goal:
    """The lowest speed relative to the fastest peer in a cell of the table."""

    work: str
    precision: str
    column: str
    floor: float

    @property
    def name(self) -> str:
        other = {"base": "batch 64", "bergamot": "all at once"}.get(self.work, "batch 32")
        return f"{WORKS[self.work]}, {self.precision}, {self.column.replace('batch 32', other)}"

    def result(self, rows: list[Row]) -> float | None:
        """Return the ratio, the lower one if there are several searches; None without results."""
        found = ratios(rows, self.work, self.precision, self.column)
        return min(found.values()) if found else None


def goals() -> Iterator[Goal]:
    for work, floors in INT8.items():
        for column, floor in zip(COLUMNS, floors, strict=True):
            if floor is not None:
                yield Goal(work, "int8", column, floor)
    for work, floors in INT8.items():
        for column, floor in zip(COLUMNS, floors, strict=True):
            if floor is not None and work != "bergamot":
                yield Goal(work, "fp32", column, FP32)


def seconds_of(row: Row) -> float:
    """Return the time that counts: on one thread CPU time, which other load hardly changes, on all cores wall time.

    A process of its own, as that of optimum, has only a wall time.
    """
    return float(min(row["cpu"] if row["workers"] == 1 and row["cpu"] else row["wall"]))


def ratios(rows: list[Row], work: str, precision: str, column: str) -> dict[int, float]:
    """Return our speed relative to the fastest peer by the best rounds, for each number of beams."""
    times: dict[int, dict[str, float]] = {}
    for row in rows:
        if (row["work"], row["precision"], row["column"]) == (work, precision, column):
            times.setdefault(row["num_beams"], {})[row["engine"]] = seconds_of(row)
    return {
        beams: min(peers) / of[OURS]
        for beams, of in times.items()
        if OURS in of and (peers := [seconds for engine, seconds in of.items() if engine != OURS])
    }


def two_digits(ratio: float) -> str:
    """Round down, so that a target that is missed by little does not look met."""
    return f"{math.floor(100 * ratio + 1e-9) / 100:.2f}"


def goal_rows(folder: Path) -> list[list[str]]:
    """Return name, target, result and verdict of each goal, measured or not."""
    rows = read("versus_peers", folder)
    found = [[goal.name, f"at least {goal.floor:.2f}x", *_verdict(goal.result(rows), goal.floor)] for goal in goals()]
    processes = {row["work"]: row for row in read("cold_start", folder)}
    start = processes.get("seq2edge translate", {}).get("best")
    resident = processes.get("Translator() of seq2edge", {}).get("resident_bytes")
    return [
        *found,
        ["cold start", f"at most {COLD_START} s", *_at_most(COLD_START, start, "s")],
        ["memory when loaded", f"at most {RESIDENT} MB", *_at_most(RESIDENT, resident and resident / 1e6, "MB")],
    ]


def _verdict(ratio: float | None, floor: float) -> list[str]:
    return NOT_MEASURED if ratio is None else [f"{two_digits(ratio)}x", _mark(ratio >= floor)]


def _at_most(limit: float, found: float | None, unit: str) -> list[str]:
    return NOT_MEASURED if found is None else [f"{found:.2f} {unit}", _mark(found <= limit)]


def _mark(holds: bool) -> str:
    return "yes" if holds else "no"
