"""Find what changed between two benchmark runs by more than noise."""

from collections.abc import Iterator
from dataclasses import dataclass

from seq2edge.bench.report import Measurement, Report, noise_of
from seq2edge.errors import DataError

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
