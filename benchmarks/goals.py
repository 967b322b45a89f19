"""Compare the measured speed and memory with the targets."""

from dataclasses import dataclass
from pathlib import Path

from results import Row, read
from seq2edge.bench.plan import PEER_PRECISION


@dataclass(frozen=True)
class Goal:
    """A lowest speed relative to a peer, for all rows that match."""

    floor: float
    rival: str = "ctranslate2"
    work: str | None = None
    precision: str = "int8"
    num_beams: int | None = None
    batch_size: int | None = None
    tokens: bool = False  # a second, where outputs of one system are longer than those of another

    def __str__(self) -> str:
        search = {None: "greedy and beam 4", 1: "greedy", 4: "beam 4"}[self.num_beams]
        batch = "every batch" if self.batch_size is None else f"batch {self.batch_size}"
        what = ", tokens/s" if self.tokens else ""
        return f"{self.work or 'every model'}, {self.precision}, {search}, {batch}{what}, vs {self.rival}"

    def ratios(self, rows: list[Row]) -> list[float]:
        """Return the best-round ratio of each row that matches."""
        labels = {"work": self.work, "precision": self.precision}
        settings = {"num_beams": self.num_beams, "batch_size": self.batch_size}
        return [
            self._tokens_ratio(row, rows) if self.tokens else row["beside"][self.rival]["ratio"]["best"]
            for row in rows
            if self.rival in row["beside"]
            and all(value is None or row[name] == value for name, value in labels.items())
            and all(value is None or row["setting"][name] == value for name, value in settings.items())
        ]

    def _tokens_ratio(self, ours: Row, rows: list[Row]) -> float:
        [theirs] = (
            row["tokens_per_second"]
            for row in rows
            if (row["work"], row["kind"], row["precision"], row["setting"])
            == (ours["work"], self.rival, PEER_PRECISION[ours["precision"]], ours["setting"])
        )
        return float(ours["tokens_per_second"]) / float(theirs)


def _table(precision: str, num_beams: int, floors: dict[int, float]) -> list[Goal]:
    return [
        Goal(floor, work="base", precision=precision, num_beams=num_beams, batch_size=size)
        for size, floor in floors.items()
    ]


GOALS = [
    *_table("int8", 1, {1: 1.15, 16: 1.4, 64: 1.5}),
    *_table("int8", 4, {1: 1.25, 16: 1.6, 64: 1.7}),
    *_table("fp32", 1, {1: 1.0, 16: 1.15, 64: 1.2}),
    *_table("fp32", 4, {1: 1.0, 16: 1.15, 64: 1.2}),
    *(Goal(1.6, work="opus", num_beams=beams, batch_size=32, tokens=True) for beams in (1, 4)),
    *(Goal(1.2, work="default", num_beams=beams, batch_size=1, tokens=True) for beams in (1, 4)),
    *(Goal(1.6, work="default", num_beams=beams, batch_size=32, tokens=True) for beams in (1, 4)),
    *_table("int4", 1, {1: 1.5}),
    *_table("int4", 4, {1: 1.5}),
    Goal(6.0, rival="torch"),
    Goal(4.0, rival="optimum"),
]
COLD_START = 0.25  # seconds
RESIDENT = 65  # MB of a process that has loaded the default model


def goal_rows(folder: Path) -> list[list[str]]:
    """Return name, floor, lowest measured ratio and verdict of each target; skip those without results."""
    rows, found = read("versus_peers", folder), []
    for goal in GOALS:
        ratios = goal.ratios(rows)
        if ratios:
            found.append(
                [str(goal), f"at least {goal.floor:.2f}x", f"{min(ratios):.2f}x", _mark(min(ratios) >= goal.floor)]
            )
    for one in read("cold_start", folder):
        if one["work"] == "seq2edge translate":
            holds = _mark(one["best"] <= COLD_START)
            found.append(["cold start", f"at most {COLD_START} s", f"{one['best']:.2f} s", holds])
        if one["work"] == "Translator() of seq2edge" and one["resident_bytes"]:
            used = one["resident_bytes"] / 1e6
            found.append(["memory when loaded", f"at most {RESIDENT} MB", f"{used:.1f} MB", _mark(used <= RESIDENT)])
    return found + _memory_rows(folder)


def _memory_rows(folder: Path) -> list[list[str]]:
    """Compare the peak memory of every bundle with CTranslate2 in the nearest precision, at its worst."""
    found: dict[tuple[str, str], list[float]] = {}
    rows = [row for row in read("memory", folder) if row["what"] == "translating"]
    peaks = {
        (row["work"], row["precision"], *row["setting"].values()): row["peak_bytes"]
        for row in rows
        if row["kind"] == "ctranslate2"
    }
    for row in rows:
        theirs = peaks.get((row["work"], PEER_PRECISION[row["precision"]], *row["setting"].values()))
        if row["kind"] == "seq2edge" and theirs and row["peak_bytes"]:
            found.setdefault((row["work"], row["precision"]), []).append(row["peak_bytes"] / theirs)
    return [
        [
            f"{work}, {precision}, peak memory vs ctranslate2",
            "below 1x",
            f"{max(ratios):.2f}x",
            _mark(max(ratios) < 1),
        ]
        for (work, precision), ratios in found.items()
    ]


def _mark(holds: bool) -> str:
    return "yes" if holds else "no"
