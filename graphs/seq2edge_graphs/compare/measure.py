"""Measure how close a bundle is to the model it was made from; needs numpy and onnxruntime."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from seq2edge import names
from seq2edge.bundle import Bundle
from seq2edge.devices import Place
from seq2edge.encoding import pad_sources
from seq2edge.onnx_engine import OnnxEngine
from seq2edge.parity import Parity, Quality
from seq2edge.search import Hypothesis, Scores
from seq2edge.sessions import HERE
from seq2edge.tokenizer import Tokenizer
from seq2edge_graphs.compare.difference import LogitDifference
from seq2edge_graphs.compare.encoded_first import encode_first
from seq2edge_graphs.compare.hear import BATCH_SIZES, BEAMS, WAYS, OpenEngine, Task, hear, hear_forced
from seq2edge_graphs.compare.quality import quality

Pairs = list[tuple[Hypothesis, Hypothesis]]  # what the bundle and what the original made of each sentence


@dataclass
class Forced:
    """What teacher forcing showed; ``worst`` is the sentence and step with the largest difference."""

    logits: LogitDifference = field(default_factory=LogitDifference)
    cross: float = 0.0
    worst: tuple[int, int] = (0, 0)


@dataclass
class Findings:
    """What a comparison adds up, sentence by sentence."""

    forced: Forced = field(default_factory=Forced)
    targets: list[list[int]] = field(default_factory=list)
    outputs: dict[tuple[int, int], Pairs] = field(default_factory=lambda: {way: [] for way in WAYS})

    @property
    def are_numbers(self) -> bool:
        """Whether the bundle's scores are numbers: from others no search goes on."""
        return bool(np.isfinite(self.forced.logits.largest))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A bundle and its original on some sentences; each is opened when it is asked, and let go afterwards."""

    ours: Bundle
    theirs: Callable[[], AbstractContextManager[OpenEngine]]
    tokenizer: Tokenizer
    task: Task
    place: Place = HERE  # where the bundle computes

    def original_greedy(self) -> list[list[int]]:
        """What the original says, which both are then forced to say."""
        with self.theirs() as engine:
            return [list(one.tokens) for one in self.task.outputs(engine, 1, 1)]

    def force(self, targets: list[list[int]], batch_size: int) -> Forced:
        """Compare cross states and the logits of every step."""
        forced = Forced()
        with TemporaryDirectory(prefix="seq2edge-") as folder:
            file = Path(folder) / "heard"
            with self.theirs() as original:
                hear_forced(original, self.task, targets, file, (batch_size,))
            with opened(self.ours, self.place) as bundle:
                compare_forced(bundle, self.task, targets, file, forced, (batch_size,))
        return forced

    def outputs(self, num_beams: int, batch_size: int) -> Pairs:
        """The best hypothesis of each sentence, the bundle's and the original's."""
        with self.theirs() as original:
            theirs = self.task.outputs(original, num_beams, batch_size)
        with opened(self.ours, self.place) as bundle:
            ours = self.task.outputs(bundle, num_beams, batch_size)
        return list(zip(ours, theirs, strict=True))


@contextmanager
def opened(bundle: Bundle, place: Place = HERE) -> Iterator[OnnxEngine]:
    """The engine of a bundle; with one thread it gives the same figures on every run."""
    yield OnnxEngine(bundle, threads=1, place=place)


def compare_forced(
    engine: OnnxEngine,
    task: Task,
    targets: list[list[int]],
    file: Path,
    forced: Forced,
    sizes: Sequence[int] = BATCH_SIZES,
    first: int = 0,
) -> None:
    """Ask the bundle what the original was asked, and add up the differences; ``first`` is the first sentence."""
    with file.open("rb") as heard:
        for batch in task.batches(sizes):
            sources = [task.sources[place] for place in batch]
            forced.cross = max(forced.cross, _cross_difference(engine, sources, heard))
            for step, (alive, ours) in enumerate(task.forced(engine, targets, batch)):
                before, theirs = forced.logits.largest, np.load(heard)
                if forced.logits.add(ours, theirs) > before:
                    forced.worst = first + batch[alive[_worst_row(ours, theirs)]], step


def _cross_difference(engine: OnnxEngine, sources: list[list[int]], heard: BinaryIO) -> float:
    states = engine.start(sources).cross_states
    _, mask = pad_sources(sources, engine.pad)
    return max(
        float(np.abs((states[name] - np.load(heard)) * _real(mask, engine.cross_axes[name])).max())
        for name in sorted(states)
    )


def _worst_row(ours: Scores, theirs: Scores) -> int:
    return int(np.abs(ours - theirs).max(axis=1).argmax())


def compare(comparison: Comparison) -> Findings:
    """Hear out the original on a few sentences, then ask the bundle the same, and so on."""
    findings = Findings()
    for first, task in comparison.task.parts():
        with TemporaryDirectory(prefix="seq2edge-") as folder:
            with comparison.theirs() as original:
                heard = hear(original, task, Path(folder) / "heard")
            with opened(comparison.ours, comparison.place) as bundle:
                batches = ([task.sources[place] for place in batch] for batch in task.batches(BATCH_SIZES))
                encode_first(bundle, batches, Path(folder))
                compare_forced(bundle, task, heard.targets, heard.file, findings.forced, first=first)
                for way, theirs in heard.outputs.items() if findings.are_numbers else ():
                    findings.outputs[way] += zip(task.outputs(bundle, *way), theirs, strict=True)
        findings.targets += heard.targets
    return findings


def measure(comparison: Comparison, references: Sequence[str] | None = None) -> tuple[Parity, Findings]:
    """Compare everything; give the figures, and what they were made from."""
    findings = compare(comparison)
    logits = findings.forced.logits
    greedy, beam = (_of_all_sizes(findings, beams) for beams in (1, BEAMS))
    parity = Parity(
        sentences=len(comparison.task.sources),
        steps=logits.steps,
        batch_sizes=BATCH_SIZES,
        device=comparison.place.device,
        cross_difference=rounded(findings.forced.cross),
        logit_difference=rounded(logits.largest),
        top1_agreement=logits.same_top / logits.steps,
        clear_agreement=logits.same_clear / logits.clear if logits.clear else 1.0,
        mean_kl=rounded(logits.divergence / logits.steps),
        greedy_equal=min(map(_share_equal, greedy), default=0.0),
        beam_equal=min(map(_share_equal, beam), default=0.0),
        score_difference=rounded(max(map(_score_difference, [*greedy, *beam]), default=0.0)),
        quality=_quality(comparison.tokenizer, beam[-1], references) if references and beam else None,
    )
    return parity, findings


def rounded(value: float) -> float:
    """Two figures are enough to judge, and do not change from run to run."""
    return float(f"{value:.1e}")


def _of_all_sizes(findings: Findings, num_beams: int) -> list[Pairs]:
    return [findings.outputs[num_beams, size] for size in BATCH_SIZES] if findings.are_numbers else []


def _real(mask: NDArray[np.bool_], axes: Sequence[str | int]) -> NDArray[np.bool_]:
    """The mask in the shape of a state: what stands in the padding is never looked at."""
    if names.SOURCE_LENGTH not in axes:
        return np.ones([1] * len(axes), np.bool_)
    place = list(axes).index(names.SOURCE_LENGTH)
    return mask.reshape(len(mask), *(mask.shape[1] if axis == place else 1 for axis in range(1, len(axes))))


def _share_equal(pairs: Pairs) -> float:
    return sum(ours.tokens == theirs.tokens for ours, theirs in pairs) / len(pairs)


def _score_difference(pairs: Pairs) -> float:
    return max((abs(ours.score - theirs.score) for ours, theirs in pairs if ours.tokens == theirs.tokens), default=0.0)


def _quality(tokenizer: Tokenizer, pairs: Pairs, references: Sequence[str]) -> Quality:
    ours, theirs = (tokenizer.decode([found.tokens for found in side]) for side in zip(*pairs, strict=True))
    return quality(theirs, ours, references)
