"""Measure how close the outputs of a bundle are to those of the source model: logits, hypotheses, BLEU and chrF."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.config.parity import Parity, Quality
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import CPU_CONFIG, open_session
from seq2edge.engine.encoder import pad_sources
from seq2edge.engine.engine import OnnxEngine, OpenSession
from seq2edge.search import Hypothesis, Scores
from seq2edge.search.batch_decode import Engine
from seq2edge.text.tokenizer import Tokenizer
from seq2edge_graphs.parity.cached_encoder import EncoderCache
from seq2edge_graphs.parity.record import (
    BATCH_SIZES,
    BEAMS,
    SEARCHES,
    ParityTask,
    record_forced_logits,
    record_reference,
)

Pairs = list[tuple[Hypothesis, Hypothesis]]  # of the bundle and of the source model, for each sentence
Rows = NDArray[np.float64]

CLEAR_LEAD = 0.5  # nats: the most likely token is 1.65 times as likely as the second


@dataclass
class LogitDifference:
    """Accumulates the differences of the logits of a bundle from those of the source model."""

    largest: float = 0.0
    steps: int = 0
    same_top: int = 0
    clear: int = 0  # steps at which the source model's most likely token has a clear lead
    same_clear: int = 0
    divergence: float = 0.0

    @property
    def clear_agreement(self) -> float:
        return self.same_clear / self.clear if self.clear else 1.0

    @property
    def mean_kl(self) -> float:
        return self.divergence / self.steps

    def add(self, bundle: Scores, source: Scores) -> float:
        """Compare rows of logits (R, V), and return their largest difference: infinite if one is not finite."""
        self.steps += len(bundle)
        difference = float(np.abs(bundle - source).max())
        if not np.isfinite(difference):
            self.largest = self.divergence = np.inf
            return np.inf
        self.largest = max(self.largest, difference)
        same, clear = bundle.argmax(axis=1) == source.argmax(axis=1), _lead(source) > CLEAR_LEAD
        self.same_top += int(same.sum())
        self.clear += int(clear.sum())
        self.same_clear += int((same & clear).sum())
        self.divergence += float(_divergence(source, bundle).sum())
        return difference


def share_equal(pairs: Pairs) -> float:
    return sum(bundle.tokens == source.tokens for bundle, source in pairs) / len(pairs)


def score_difference(pairs: Pairs) -> float:
    """Return the largest difference of the scores of equal outputs."""
    equal = [(bundle, source) for bundle, source in pairs if bundle.tokens == source.tokens]
    return max((abs(bundle.score - source.score) for bundle, source in equal), default=0.0)


def corpus_quality(tokenizer: Tokenizer, pairs: Pairs, references: Sequence[str]) -> Quality:
    """Return BLEU and chrF of the source model and of the bundle."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bundle, source = (tokenizer.decode([one.tokens for one in side]) for side in zip(*pairs, strict=True))
    scores = [
        round(metric.corpus_score(list(texts), [list(references)]).score, 2)
        for metric in (BLEU(), CHRF())
        for texts in (source, bundle)
    ]
    return Quality(bleu_original=scores[0], bleu_bundle=scores[1], chrf_original=scores[2], chrf_bundle=scores[3])


def _lead(logits: Scores) -> Scores:
    """Return the difference of the best and the second-best logit of each row."""
    second, best = np.partition(logits, -2, axis=1)[:, -2:].T
    lead: Scores = best - second
    return lead


def _divergence(source: Scores, bundle: Scores) -> Rows:
    """Return the Kullback-Leibler divergence of the bundle's next-token distributions from the source model's."""
    log_source, log_bundle = _log_softmax(source), _log_softmax(bundle)
    rows: Rows = (np.exp(log_source) * (log_source - log_bundle)).sum(axis=1)
    return rows


def _log_softmax(logits: Scores) -> Rows:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    rows: Rows = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return rows


RECORDING = "recording"  # file of the source model's outputs


@dataclass
class ForcedDifference:
    """Differences under teacher forcing; ``worst`` is the sentence and the step with the largest one."""

    logits: LogitDifference = field(default_factory=LogitDifference)
    cross: float = 0.0
    worst: tuple[int, int] = (0, 0)


@dataclass
class Findings:
    """What a comparison accumulates over the sentences."""

    forced: ForcedDifference = field(default_factory=ForcedDifference)
    targets: list[list[int]] = field(default_factory=list)
    pairs: dict[tuple[int, int], Pairs] = field(default_factory=lambda: {search: [] for search in SEARCHES})

    @property
    def is_finite(self) -> bool:
        """Whether all logits of the bundle are finite; no search works with others."""
        return bool(np.isfinite(self.forced.logits.largest))


@dataclass(frozen=True, kw_only=True)
class ParityComparison:
    """A bundle, its source model and the sentences to compare them on; each model is open only while it runs."""

    bundle: Bundle
    open_source: Callable[[], AbstractContextManager[Engine]]
    tokenizer: Tokenizer
    task: ParityTask
    device_config: DeviceConfig = CPU_CONFIG  # of the bundle

    def source_targets(self) -> list[list[int]]:
        """Return the greedy outputs of the source model, which both models are then forced to produce."""
        with self.open_source() as engine:
            return [list(one.tokens) for one in self.task.translate(engine, 1, 1)]

    def forced_difference(self, targets: list[list[int]], *batch_sizes: int) -> ForcedDifference:
        """Compare the cross-attention states and the logits of every step."""
        forced = ForcedDifference()
        with TemporaryDirectory(prefix="seq2edge-") as folder:
            file = Path(folder) / RECORDING
            with self.open_source() as source:
                record_forced_logits(source, self.task, targets, file, batch_sizes)
            with open_engine(self.bundle, self.device_config) as engine:
                compare_forced(engine, self.task, targets, file, forced, batch_sizes)
        return forced

    def hypothesis_pairs(self, num_beams: int, batch_size: int) -> Pairs:
        """Return the best hypotheses of the bundle and of the source model for each sentence."""
        with self.open_source() as source:
            source_hypotheses = self.task.translate(source, num_beams, batch_size)
        with open_engine(self.bundle, self.device_config) as engine:
            bundle_hypotheses = self.task.translate(engine, num_beams, batch_size)
        return list(zip(bundle_hypotheses, source_hypotheses, strict=True))


@contextmanager
def open_engine(
    bundle: Bundle, device_config: DeviceConfig = CPU_CONFIG, open_session: OpenSession = open_session
) -> Iterator[OnnxEngine]:
    """Open a bundle with one thread, which gives the same figures in every run."""
    yield OnnxEngine(bundle, threads=1, device_config=device_config, open_session=open_session)


def measure(comparison: ParityComparison, references: Sequence[str] | None = None) -> tuple[Parity, Findings]:
    """Compare a bundle with its source model; return the figures, and the findings that they are computed from."""
    findings = compare(comparison)
    logits = findings.forced.logits
    greedy, beam = (_pairs_by_size(findings, beams) for beams in (1, BEAMS))
    parity = Parity(
        sentences=len(comparison.task.sources),
        steps=logits.steps,
        batch_sizes=BATCH_SIZES,
        device=comparison.device_config.device,
        cross_difference=round_figure(findings.forced.cross),
        logit_difference=round_figure(logits.largest),
        top1_agreement=logits.same_top / logits.steps,
        clear_agreement=logits.clear_agreement,
        mean_kl=round_figure(logits.mean_kl),
        greedy_equal=min(map(share_equal, greedy), default=0.0),
        beam_equal=min(map(share_equal, beam), default=0.0),
        score_difference=round_figure(max(map(score_difference, [*greedy, *beam]), default=0.0)),
        quality=corpus_quality(comparison.tokenizer, beam[-1], references) if references and beam else None,
    )
    return parity, findings


def round_figure(value: float) -> float:
    """Round to two digits, which are enough to judge by and do not vary from run to run."""
    return float(f"{value:.1e}")


def _pairs_by_size(findings: Findings, num_beams: int) -> list[Pairs]:
    return [findings.pairs[num_beams, size] for size in BATCH_SIZES] if findings.is_finite else []


def compare(comparison: ParityComparison) -> Findings:
    """Record the source model on a few sentences, compare the bundle with the recording, and repeat for the next."""
    findings = Findings()
    for first, task in comparison.task.chunks():
        with TemporaryDirectory(prefix="seq2edge-") as folder:
            with comparison.open_source() as source:
                reference = record_reference(source, task, Path(folder) / RECORDING)
            cache = EncoderCache(Path(folder))
            with open_engine(comparison.bundle, comparison.device_config, cache.open_session) as engine:
                cache.fill(engine, map(task.batch_sources, task.batches()))
                compare_forced(engine, task, reference.targets, reference.file, findings.forced, first=first)
                for search, hypotheses in reference.hypotheses.items() if findings.is_finite else ():
                    findings.pairs[search] += zip(task.translate(engine, *search), hypotheses, strict=True)
        findings.targets += reference.targets
    return findings


def compare_forced(
    engine: OnnxEngine,
    task: ParityTask,
    targets: list[list[int]],
    file: Path,
    forced: ForcedDifference,
    sizes: Sequence[int] = BATCH_SIZES,
    first: int = 0,
) -> None:
    """Add the differences of a bundle from a recording to ``forced``; ``first`` is the index of the first sentence."""
    with file.open("rb") as recording:
        for batch in task.batches(sizes):
            sources = task.batch_sources(batch)
            forced.cross = max(forced.cross, _cross_difference(engine, sources, recording))
            for step, (rows, logits) in enumerate(task.forced_logits(engine, targets, batch)):
                before, reference = forced.logits.largest, np.load(recording)
                if forced.logits.add(logits, reference) > before:
                    forced.worst = first + batch[rows[_worst_row(logits, reference)]], step


def _cross_difference(engine: OnnxEngine, sources: list[list[int]], recording: BinaryIO) -> float:
    states = engine.start(sources).cross_states
    _, mask = pad_sources(sources, engine.padding.token)
    return max(
        _largest_difference(states[name], np.load(recording), mask, engine.cross_axes[name]) for name in sorted(states)
    )


def _largest_difference(
    ours: Scores, theirs: Scores, mask: NDArray[np.bool_], axes: Sequence[str | int]
) -> float:  # (B, ..., S, ...)
    """Compare cross-attention states; an engine may have padded its sources beyond the mask."""
    real = tuple(slice(mask.shape[1] if axis == tensor_names.SOURCE_LENGTH else None) for axis in axes)
    return float(np.abs((ours[real] - theirs[real]) * _broadcast_mask(mask, axes)).max())


def _broadcast_mask(mask: NDArray[np.bool_], axes: Sequence[str | int]) -> NDArray[np.bool_]:
    """Reshape the source mask to broadcast over a state: padding does not count."""
    if tensor_names.SOURCE_LENGTH not in axes:
        return np.ones([1] * len(axes), np.bool_)
    length_axis = list(axes).index(tensor_names.SOURCE_LENGTH)
    return mask.reshape(len(mask), *(mask.shape[1] if axis == length_axis else 1 for axis in range(1, len(axes))))


def _worst_row(bundle: Scores, source: Scores) -> int:
    return int(np.abs(bundle - source).max(axis=1).argmax())
