"""Measure how close a bundle is to the model it was made from.

Hear out an original, and keep what it says until the bundle is asked the same.

The two are never in memory together: what the original gives goes to a file, in the order in which it is asked for.

How far the logits of two engines are apart.

How good translations are beside references.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.parity import Parity, Quality
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import CPU_CONFIG
from seq2edge.engine.encoder import pad_sources
from seq2edge.engine.engine import OnnxEngine
from seq2edge.scoring.scorer import forced_logits
from seq2edge.search import Hypothesis, Ids, Scores
from seq2edge.search.batch_decode import Engine, decode, group
from seq2edge.text.tokenizer import Tokenizer
from seq2edge_graphs.parity.cached_encoder import cache_encoder

BATCH_SIZES = (1, 8)
BEAMS = 4
SEARCHES = tuple((beams, size) for beams in (1, BEAMS) for size in BATCH_SIZES)  # in which both translate
ANY_TOKENS = 10**9  # in a batch: its size alone counts
SENTENCES_AT_ONCE = 32  # the file has a row of logits for each of their tokens
States = dict[str, NDArray[Any]]  # cross states by name


class SourceState(Protocol):
    """A step that shows what its encoder has handed over."""

    @property
    def cross_states(self) -> States: ...

    def __call__(self, tokens: Ids, rows: Ids) -> Scores: ...


class SourceEngine(Protocol):
    """An engine whose steps show what the encoder has handed over: the original, in PyTorch or as another bundle."""

    def start(self, sources: list[list[int]]) -> SourceState: ...


@dataclass(frozen=True)
class ParityTask:
    """Sentences to compare on, and how they are translated."""

    sources: list[list[int]]
    generation: GenerationOptions
    most_tokens: int  # of an output; a model that does not know a language never ends by itself

    def parts(self) -> Iterator[tuple[int, "ParityTask"]]:
        """A few sentences at a time, and the place of the first."""
        for first in range(0, len(self.sources), SENTENCES_AT_ONCE):
            yield first, replace(self, sources=self.sources[first : first + SENTENCES_AT_ONCE])

    def options(self, num_beams: int) -> GenerationOptions:
        most = min(self.most_tokens, self.generation.longest(1) - 1)
        return replace(self.generation, num_beams=num_beams, num_return_sequences=1, max_new_tokens=most)

    def outputs(self, engine: Engine, num_beams: int, batch_size: int) -> list[Hypothesis]:
        """The best hypothesis of each sentence."""
        options = self.options(num_beams)
        found = decode(engine, self.sources, options, batch_tokens=ANY_TOKENS, batch_size=batch_size)
        return [hypotheses[0] for hypotheses in found]

    def batches(self, sizes: Sequence[int]) -> Iterator[list[int]]:
        """The places of the sentences in batches of each size."""
        for size in sizes:
            yield from group([len(source) for source in self.sources], batch_tokens=ANY_TOKENS, batch_size=size)

    def forced(self, engine: Engine, targets: list[list[int]], batch: list[int]) -> Iterator[tuple[Ids, Scores]]:
        """The logits of a batch that is forced to say its targets, and which of its sentences they are of."""
        sources, wanted = ([rows[place] for place in batch] for rows in (self.sources, targets))
        return forced_logits(engine, sources, wanted, start=self.options(1).decoder_start_token_id)


@dataclass(frozen=True)
class ReferenceOutputs:
    """What the original made of some sentences."""

    targets: list[list[int]]  # greedy, which both are forced to say
    outputs: dict[tuple[int, int], list[Hypothesis]]  # by beams and batch size
    file: Path  # cross states and logits of every batch


def record_reference(engine: SourceEngine, task: ParityTask, file: Path) -> ReferenceOutputs:
    """Ask the original everything that the bundle will be asked."""
    outputs = {way: task.outputs(engine, *way) for way in SEARCHES}
    targets = [list(one.tokens) for one in outputs[SEARCHES[0]]]
    record_forced_logits(engine, task, targets, file)
    return ReferenceOutputs(targets, outputs, file)


def record_forced_logits(
    engine: SourceEngine, task: ParityTask, targets: list[list[int]], file: Path, sizes: Sequence[int] = BATCH_SIZES
) -> None:
    """Write the cross states of every batch, in the order of their names, and behind them the logits of each step."""
    with file.open("wb") as written:
        for batch in task.batches(sizes):
            states = engine.start([task.sources[place] for place in batch]).cross_states
            for name in sorted(states):
                np.save(written, states[name])
            for _, logits in task.forced(engine, targets, batch):
                np.save(written, logits)


Rows = NDArray[np.float64]

CLEAR_LEAD = 0.5  # nats: the likeliest token is 1.65 times as likely as the second


@dataclass
class LogitDifference:
    """Adds up how far two engines are apart."""

    largest: float = 0.0
    steps: int = 0
    same_top: int = 0
    clear: int = 0  # steps where the original's likeliest token is clearly so
    same_clear: int = 0
    divergence: float = 0.0

    def add(self, ours: Scores, theirs: Scores) -> float:
        """Compare some rows of logits (R, V); give their largest difference, infinite where one is not a number."""
        self.steps += len(ours)
        difference = float(np.abs(ours - theirs).max())
        if not np.isfinite(difference):
            self.largest = self.divergence = np.inf
            return np.inf
        self.largest = max(self.largest, difference)
        same, clear = ours.argmax(axis=1) == theirs.argmax(axis=1), _lead(theirs) > CLEAR_LEAD
        self.same_top += int(same.sum())
        self.clear += int(clear.sum())
        self.same_clear += int((same & clear).sum())
        self.divergence += float(_divergence(theirs, ours).sum())
        return difference


def _lead(logits: Scores) -> Scores:
    """How far the best logit of each row is before the second."""
    second, best = np.partition(logits, -2, axis=1)[:, -2:].T
    lead: Scores = best - second
    return lead


def _divergence(theirs: Scores, ours: Scores) -> Rows:
    """Kullback-Leibler divergence of our next-token distribution from theirs, in double precision."""
    original, copy = _log_softmax(theirs), _log_softmax(ours)
    rows: Rows = (np.exp(original) * (original - copy)).sum(axis=1)
    return rows


def _log_softmax(logits: Scores) -> Rows:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    rows: Rows = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return rows


def quality(original: Sequence[str], bundle: Sequence[str], references: Sequence[str]) -> Quality:
    """Corpus scores of what the original says and of what the bundle says."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scores = [
        round(metric.corpus_score(list(texts), [list(references)]).score, 2)
        for metric in (BLEU(), CHRF())
        for texts in (original, bundle)
    ]
    return Quality(bleu_original=scores[0], bleu_bundle=scores[1], chrf_original=scores[2], chrf_bundle=scores[3])


Pairs = list[tuple[Hypothesis, Hypothesis]]  # what the bundle and what the original made of each sentence


@dataclass
class ForcedDifference:
    """What teacher forcing showed; ``worst`` is the sentence and step with the largest difference."""

    logits: LogitDifference = field(default_factory=LogitDifference)
    cross: float = 0.0
    worst: tuple[int, int] = (0, 0)


@dataclass
class Findings:
    """What a comparison adds up, sentence by sentence."""

    forced: ForcedDifference = field(default_factory=ForcedDifference)
    targets: list[list[int]] = field(default_factory=list)
    outputs: dict[tuple[int, int], Pairs] = field(default_factory=lambda: {way: [] for way in SEARCHES})

    @property
    def are_numbers(self) -> bool:
        """Whether the bundle's scores are numbers: from others no search goes on."""
        return bool(np.isfinite(self.forced.logits.largest))


@dataclass(frozen=True, kw_only=True)
class ParityComparison:
    """A bundle and its original on some sentences; each is opened when it is asked, and let go afterwards."""

    ours: Bundle
    theirs: Callable[[], AbstractContextManager[SourceEngine]]
    tokenizer: Tokenizer
    task: ParityTask
    device_config: DeviceConfig = CPU_CONFIG  # where the bundle computes

    def original_greedy(self) -> list[list[int]]:
        """What the original says, which both are then forced to say."""
        with self.theirs() as engine:
            return [list(one.tokens) for one in self.task.outputs(engine, 1, 1)]

    def force(self, targets: list[list[int]], batch_size: int) -> ForcedDifference:
        """Compare cross states and the logits of every step."""
        forced = ForcedDifference()
        with TemporaryDirectory(prefix="seq2edge-") as folder:
            file = Path(folder) / "heard"
            with self.theirs() as original:
                record_forced_logits(original, self.task, targets, file, (batch_size,))
            with open_engine(self.ours, self.device_config) as bundle:
                compare_forced(bundle, self.task, targets, file, forced, (batch_size,))
        return forced

    def outputs(self, num_beams: int, batch_size: int) -> Pairs:
        """The best hypothesis of each sentence, the bundle's and the original's."""
        with self.theirs() as original:
            theirs = self.task.outputs(original, num_beams, batch_size)
        with open_engine(self.ours, self.device_config) as bundle:
            ours = self.task.outputs(bundle, num_beams, batch_size)
        return list(zip(ours, theirs, strict=True))


@contextmanager
def open_engine(bundle: Bundle, device_config: DeviceConfig = CPU_CONFIG) -> Iterator[OnnxEngine]:
    """The engine of a bundle; with one thread it gives the same figures on every run."""
    yield OnnxEngine(bundle, threads=1, device_config=device_config)


def compare_forced(
    engine: OnnxEngine,
    task: ParityTask,
    targets: list[list[int]],
    file: Path,
    forced: ForcedDifference,
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


def compare(comparison: ParityComparison) -> Findings:
    """Hear out the original on a few sentences, then ask the bundle the same, and so on."""
    findings = Findings()
    for first, task in comparison.task.parts():
        with TemporaryDirectory(prefix="seq2edge-") as folder:
            with comparison.theirs() as original:
                heard = record_reference(original, task, Path(folder) / "heard")
            with open_engine(comparison.ours, comparison.device_config) as bundle:
                batches = ([task.sources[place] for place in batch] for batch in task.batches(BATCH_SIZES))
                cache_encoder(bundle, batches, Path(folder))
                compare_forced(bundle, task, heard.targets, heard.file, findings.forced, first=first)
                for way, theirs in heard.outputs.items() if findings.are_numbers else ():
                    findings.outputs[way] += zip(task.outputs(bundle, *way), theirs, strict=True)
        findings.targets += heard.targets
    return findings


def measure(comparison: ParityComparison, references: Sequence[str] | None = None) -> tuple[Parity, Findings]:
    """Compare everything; give the figures, and what they were made from."""
    findings = compare(comparison)
    logits = findings.forced.logits
    greedy, beam = (_of_all_sizes(findings, beams) for beams in (1, BEAMS))
    parity = Parity(
        sentences=len(comparison.task.sources),
        steps=logits.steps,
        batch_sizes=BATCH_SIZES,
        device=comparison.device_config.device,
        cross_difference=round_figure(findings.forced.cross),
        logit_difference=round_figure(logits.largest),
        top1_agreement=logits.same_top / logits.steps,
        clear_agreement=logits.same_clear / logits.clear if logits.clear else 1.0,
        mean_kl=round_figure(logits.divergence / logits.steps),
        greedy_equal=min(map(_share_equal, greedy), default=0.0),
        beam_equal=min(map(_share_equal, beam), default=0.0),
        score_difference=round_figure(max(map(_score_difference, [*greedy, *beam]), default=0.0)),
        quality=_quality(comparison.tokenizer, beam[-1], references) if references and beam else None,
    )
    return parity, findings


def round_figure(value: float) -> float:
    """Two figures are enough to judge, and do not change from run to run."""
    return float(f"{value:.1e}")


def _of_all_sizes(findings: Findings, num_beams: int) -> list[Pairs]:
    return [findings.outputs[num_beams, size] for size in BATCH_SIZES] if findings.are_numbers else []


def _real(mask: NDArray[np.bool_], axes: Sequence[str | int]) -> NDArray[np.bool_]:
    """The mask in the shape of a state: what stands in the padding is never looked at."""
    if tensor_names.SOURCE_LENGTH not in axes:
        return np.ones([1] * len(axes), np.bool_)
    place = list(axes).index(tensor_names.SOURCE_LENGTH)
    return mask.reshape(len(mask), *(mask.shape[1] if axis == place else 1 for axis in range(1, len(axes))))


def _share_equal(pairs: Pairs) -> float:
    return sum(ours.tokens == theirs.tokens for ours, theirs in pairs) / len(pairs)


def _score_difference(pairs: Pairs) -> float:
    return max((abs(ours.score - theirs.score) for ours, theirs in pairs if ours.tokens == theirs.tokens), default=0.0)


def _quality(tokenizer: Tokenizer, pairs: Pairs, references: Sequence[str]) -> Quality:
    ours, theirs = (tokenizer.decode([found.tokens for found in side]) for side in zip(*pairs, strict=True))
    return quality(theirs, ours, references)
