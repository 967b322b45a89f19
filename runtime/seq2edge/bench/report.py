"""The results of a benchmark run, in memory and as JSON, and what changed between two runs by more than noise."""

import json
import os
from collections.abc import Iterator, Sequence
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


MEMORY_NOISE = 0.05  # fraction of the bytes: memory use varies slightly from run to run
LOAD_NOISE = 0.25  # fraction of the seconds to load, which are measured once
BLEU_NOISE = 0.005  # half of the last digit shown


@dataclass(frozen=True, kw_only=True)
class Change:
    """One figure of one system before and after."""

    where: str
    what: str
    before: float
    after: float
    noise: float  # fraction of the figure, or BLEU points

    @property
    def relative(self) -> float:
        return self.after / self.before - 1

    @property
    def is_worse(self) -> bool:
        """Whether it became slower or larger, or lost BLEU, beyond noise; the length of outputs is neither."""
        if self.what == "target tokens" or not self.beyond_noise:
            return False
        return self.after < self.before if self.what == "BLEU" else self.after > self.before

    @property
    def beyond_noise(self) -> bool:
        if self.what == "BLEU":
            return abs(self.after - self.before) > self.noise
        low, high = sorted((self.before, self.after))
        return high / low - 1 > self.noise


def compare(before: Report, after: Report) -> list[Change]:
    """Compare every figure that both runs have of the same system, workload and setting."""
    known = {_key(one): one for one in before.measurements}
    pairs = [(known[_key(one)], one) for one in after.measurements if _key(one) in known]
    if not pairs:
        raise DataError("the two runs have no system in common with the same workload and setting")
    return [change for old, new in pairs for change in _changes(old, new)]


def differing_machines(before: Report, after: Report) -> list[str]:
    """List differences between the machines that may explain a change."""
    old, new = before.machine, after.machine
    pairs = {"CPU": (old.cpu, new.cpu), "CPU flags": (old.flags, new.flags), "Python": (old.python, new.python)}
    names = sorted(old.versions.keys() | new.versions.keys())
    pairs |= {name: (old.versions.get(name, "none"), new.versions.get(name, "none")) for name in names}
    return [f"{name}: {one} before, {other} after" for name, (one, other) in pairs.items() if one != other]


def regressions(before: Report, after: Report) -> list[Change] | None:
    """Return what became worse beyond noise; None if the runs come from different CPUs, whose times do not compare."""
    old, new = before.machine, after.machine
    if (old.cpu, old.flags) != (new.cpu, new.flags):
        return None
    return [change for change in compare(before, after) if change.is_worse]


def describe_changes(before: Report, after: Report) -> str:
    changes = compare(before, after)
    notable = [change for change in changes if change.beyond_noise]
    lines = [f"differs in {difference}" for difference in differing_machines(before, after)]
    lines += [_describe(change) for change in notable]
    lines.append(f"{len(notable)} of {len(changes)} figures changed beyond noise")
    return "\n".join(lines)


def _key(one: Measurement) -> tuple[object, ...]:
    return one.system, one.setting, one.work, one.new_tokens


def _changes(old: Measurement, new: Measurement) -> Iterator[Change]:
    where = f"{new.system}, {new.setting}"
    noise = max(noise_of(old.rounds), noise_of(new.rounds))
    figures = {
        "ms/sentence": (old.milliseconds, new.milliseconds, noise),
        "ms to the first token": (old.first_token.best, new.first_token.best, noise),
        "seconds to load": (old.load_seconds, new.load_seconds, LOAD_NOISE),
        "peak MB": (_megabytes(old.peak_bytes), _megabytes(new.peak_bytes), MEMORY_NOISE),
        "MB on disk": (_megabytes(old.size), _megabytes(new.size), 0.0),
        "target tokens": (float(old.target_tokens), float(new.target_tokens), 0.0),
        "BLEU": (old.bleu, new.bleu, BLEU_NOISE),
    }
    for what, (first, second, allowed) in figures.items():
        if first is not None and second is not None:
            yield Change(where=where, what=what, before=first, after=second, noise=allowed)


def _describe(change: Change) -> str:
    if change.what == "BLEU":
        return f"{change.where}: {change.what} {change.before:.2f} -> {change.after:.2f}"
    return (
        f"{change.where}: {change.what} {change.before:.4g} -> {change.after:.4g} "
        f"({change.relative:+.1%}, noise {change.noise:.1%})"
    )


def _megabytes(size: int | None) -> float | None:
    return None if size is None else size / 1e6
