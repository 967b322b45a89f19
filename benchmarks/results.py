"""Read and write the recorded results: one file of JSON lines per benchmark."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seq2edge.bench.environment import describe_environment
from seq2edge.bench.report import Report

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
QUICK_RESULTS = ROOT / "build" / "bench" / "results"  # of --quick runs, whose figures are meaningless
Row = dict[str, Any]


def read(name: str, folder: Path = RESULTS) -> list[Row]:
    """Return the rows of a benchmark; none if it has not run yet."""
    path = folder / f"{name}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(name: str, rows: list[Row], *, quick: bool, replacing: str | None = None, by: tuple[str, ...] = ()) -> None:
    """Write the rows of a benchmark; with ``replacing``, only rows with this work are replaced.

    With ``by``, only rows are replaced that have the same values under these keys as a new one.
    """
    folder = QUICK_RESULTS if quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    kept = [] if replacing is None and not by else read(name, folder)
    new = {tuple(row[key] for key in by) for row in rows}
    kept = [row for row in kept if row["work"] != replacing and not (by and tuple(row[key] for key in by) in new)]
    lines = [json.dumps(row, ensure_ascii=False) for row in kept + rows]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(rows)} rows in {folder / name}.jsonl")


def rows_of(report: Report, work: str) -> list[Row]:
    """Return a row for each system and setting of a run."""
    machine = asdict(report.machine)
    return [{**asdict(one), "source": one.work, "work": work, "machine": machine} for one in report.measurements]


def machine() -> Row:
    return asdict(describe_environment())
