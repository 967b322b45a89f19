"""What a run of the benchmark has found, in memory and as JSON.

What many times say: percentiles, ratios with their spread, and how far they are from being steady.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from seq2edge.bench.environment import Environment
from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.config.schema import ClosedError, read_closed
from seq2edge.errors import DataError

LEAST_NOISE = 0.02  # even a quiet machine repeats a time only so well


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Milliseconds of a batch."""

    best: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times as fast: by the best rounds of both, and the least and the most that any single round says."""

    best: float
    lowest: float
    highest: float


def latency_of(seconds: Sequence[float]) -> Latency:
    """Percentiles are interpolated between the two nearest times."""
    p50, p95, p99 = (float(1e3 * np.percentile(seconds, share)) for share in (50, 95, 99))
    return Latency(best=1e3 * min(seconds), p50=p50, p95=p95, p99=p99)


def ratio_of(theirs: Sequence[float], ours: Sequence[float]) -> Ratio:
    """Above 1, ours is faster; the rounds of both were measured in turns, so each pair saw the same machine."""
    pairs = [one / other for one, other in zip(theirs, ours, strict=True)]
    return Ratio(best=min(theirs) / min(ours), lowest=min(pairs), highest=max(pairs))


def noise_of(rounds: Sequence[float]) -> float:
    """How far the usual round is above the best one, as a share of it: other work on the machine only ever adds."""
    return max(LEAST_NOISE, float(np.median(rounds)) / min(rounds) - 1)


FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Under which conditions systems are compared."""

    device: str
    threads: int
    batch_size: int
    num_beams: int

    def __str__(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        search = "greedy" if self.num_beams == 1 else f"beam {self.num_beams}"
        return f"{self.device}, {threads}, batch {self.batch_size}, {search}"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A bundle beside another system: how many times as fast, and how many outputs are equal token for token."""

    system: str
    ratio: Ratio
    equal: int | None  # null: their tokens mean different things


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One system under one setting."""

    system: str
    kind: str
    precision: str
    tool: str
    size: int
    setting: Setting
    work: str  # signature of the source tokens
    sentences: int
    source_tokens: int
    target_tokens: int
    new_tokens: int | None
    rounds: tuple[float, ...]  # seconds of all batches
    latency: Latency  # of a batch
    first_token: Latency
    tokens_per_second: float  # in the best round
    load_seconds: float | None
    peak_bytes: int | None
    bleu: float | None
    beside: dict[str, Comparison]  # by the column that it is shown in

    @property
    def milliseconds(self) -> float:
        """A sentence, in the best round."""
        return 1e3 * min(self.rounds) / self.sentences


@dataclass(frozen=True, kw_only=True)
class Report:
    """A whole run."""

    format_version: int
    machine: Environment
    load_average_after: float | None
    measurements: tuple[Measurement, ...]

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise ValueError(f"format_version is {self.format_version}, but this seq2edge reads {FORMAT_VERSION}")

    @property
    def settings(self) -> list[Setting]:
        return list(dict.fromkeys(one.setting for one in self.measurements))

    def under(self, setting: Setting) -> list[Measurement]:
        return [one for one in self.measurements if one.setting == setting]


def check_writable(path: Path) -> None:
    """Refuse a path that no report can be written to, before there is one."""
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise DataError(f"{path} cannot be written: it is a folder, or its folder is not there or not open to you")


def write_report(report: Report, path: Path) -> None:
    with replaced_file(path) as new:
        new.write_text(json.dumps(asdict(report), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_report(path: Path) -> Report:
    try:
        return read_closed(Report, json.loads(path.read_text(encoding="utf-8")), where="report")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except (ClosedError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a report of  seq2edge bench --json ({error})") from None
