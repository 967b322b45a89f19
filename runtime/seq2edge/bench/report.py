"""The results of a benchmark run, in memory and as JSON, and the statistics in them."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from seq2edge.bench.environment import Environment
from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.config.schema import SchemaError, read_strict
from seq2edge.errors import DataError

FORMAT_VERSION = 1
MIN_NOISE = 0.02  # even an idle machine repeats a time only so well


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Milliseconds of a batch."""

    best: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A speed ratio: of the best rounds of both systems, and its range over all rounds."""

    best: float
    lowest: float
    highest: float


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The conditions under which systems are compared."""

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
    """A bundle compared with another system: its speed ratio, and how many outputs are equal token for token."""

    system: str
    ratio: Ratio
    equal: int | None  # null: their vocabularies differ


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The results of one system under one setting."""

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
    beside: dict[str, Comparison]  # by column title

    @property
    def milliseconds(self) -> float:
        """Milliseconds per sentence in the best round."""
        return 1e3 * min(self.rounds) / self.sentences


@dataclass(frozen=True, kw_only=True)
class Report:
    """The results of a run."""

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
    """Raise an error before anything is measured if the report cannot be written."""
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise DataError(f"{path} cannot be written: it is a folder, or its folder does not exist or is not writable")


def write_report(report: Report, path: Path) -> None:
    with replaced_file(path) as new:
        new.write_text(json.dumps(asdict(report), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_report(path: Path) -> Report:
    try:
        return read_strict(Report, json.loads(path.read_text(encoding="utf-8")), where="report")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except (SchemaError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a report of  seq2edge bench --json ({error})") from None


def latency_of(seconds: Sequence[float]) -> Latency:
    """Return the best time and percentiles, which are interpolated between the two nearest times."""
    p50, p95, p99 = (float(1e3 * np.percentile(seconds, share)) for share in (50, 95, 99))
    return Latency(best=1e3 * min(seconds), p50=p50, p95=p95, p99=p99)


def ratio_of(theirs: Sequence[float], ours: Sequence[float]) -> Ratio:
    """Return how many times as fast ours is; rounds were measured in turns, so pairs are comparable."""
    pairs = [one / other for one, other in zip(theirs, ours, strict=True)]
    return Ratio(best=min(theirs) / min(ours), lowest=min(pairs), highest=max(pairs))


def noise_of(rounds: Sequence[float]) -> float:
    """Return how far the median round is above the best one, as a fraction: other load only ever adds time."""
    return max(MIN_NOISE, float(np.median(rounds)) / min(rounds) - 1)
