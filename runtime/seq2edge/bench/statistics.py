"""What many times say: percentiles, ratios with their spread, and how far they are from being steady; needs numpy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
