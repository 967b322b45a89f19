"""Measure how close a bundle is to the model it was made from; needs numpy and onnxruntime."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seq2edge import names
from seq2edge.batching import group
from seq2edge.decoding import decode
from seq2edge.encoding import pad_sources
from seq2edge.forcing import forced_logits
from seq2edge.generation import GenerationOptions
from seq2edge.onnx_engine import OnnxEngine
from seq2edge.parity import Parity, Quality
from seq2edge.search import Hypothesis, Ids, Scores
from seq2edge.tokenizer import Tokenizer
from seq2edge_graphs.compare.difference import LogitDifference
from seq2edge_graphs.compare.quality import quality

BATCH_SIZES = (1, 8)
BEAMS = 4
Pairs = list[tuple[Hypothesis, Hypothesis]]  # what the bundle and what the original made of each sentence


class OpenStep(Protocol):
    """A step that shows what its encoder has handed over."""

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]: ...

    def __call__(self, tokens: Ids, rows: Ids) -> Scores: ...


class OpenEngine(Protocol):
    """An engine whose steps show what the encoder has handed over: the original, in PyTorch or as another bundle."""

    def start(self, sources: list[list[int]]) -> OpenStep: ...


@dataclass
class Forced:
    """What teacher forcing showed; ``worst`` is the sentence and step with the largest difference."""

    logits: LogitDifference
    cross: float = 0.0
    worst: tuple[int, int] = (0, 0)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A bundle and its original side by side on some sentences."""

    ours: OnnxEngine
    theirs: OpenEngine
    tokenizer: Tokenizer
    generation: GenerationOptions
    sources: list[list[int]]
    most_tokens: int  # of an output; a model that does not know a language never ends by itself

    def force(self, targets: list[list[int]], batch_sizes: Sequence[int] = BATCH_SIZES) -> Forced:
        """Compare cross states and the logits of every step, for each batch size."""
        result = Forced(LogitDifference())
        for size in batch_sizes:
            for batch in group([len(source) for source in self.sources], batch_tokens=10**9, batch_size=size):
                sources, wanted = ([rows[place] for place in batch] for rows in (self.sources, targets))
                result.cross = max(result.cross, self._cross_difference(sources))
                self._force_batch(batch, sources, wanted, result)
        return result

    def _cross_difference(self, sources: list[list[int]]) -> float:
        ours, theirs = self.ours.start(sources), self.theirs.start(sources).cross_states
        _, mask = pad_sources(sources, self.ours.pad)
        return max(
            float(np.abs((states - theirs[name]) * _real(mask, self.ours.cross_axes[name])).max())
            for name, states in ours.cross_states.items()
        )

    def _force_batch(
        self, batch: list[int], sources: list[list[int]], targets: list[list[int]], result: Forced
    ) -> None:
        start = self.options(1).decoder_start_token_id
        both = (forced_logits(engine, sources, targets, start=start) for engine in (self.ours, self.theirs))
        for step, ((alive, ours), (_, theirs)) in enumerate(zip(*both, strict=True)):
            before = result.logits.largest
            if result.logits.add(ours, theirs) > before:
                row = int(np.abs(ours - theirs).max(axis=1).argmax())
                result.worst = batch[alive[row]], step

    def original_greedy(self) -> list[list[int]]:
        """What the original says, which both are then forced to say."""
        found = decode(self.theirs, self.sources, self.options(1), batch_size=1)
        return [list(hypotheses[0].tokens) for hypotheses in found]

    def outputs_of_all_sizes(self, num_beams: int, forced: Forced) -> list[Pairs]:
        """What both say freely; nothing where the bundle's scores are not numbers, from which no search goes on."""
        if not np.isfinite(forced.logits.largest):
            return []
        return [self.outputs(num_beams, size) for size in BATCH_SIZES]

    def outputs(self, num_beams: int, batch_size: int) -> Pairs:
        """The best hypothesis of each sentence, the bundle's and the original's."""
        options = self.options(num_beams)
        ours, theirs = (
            decode(engine, self.sources, options, batch_size=batch_size) for engine in (self.ours, self.theirs)
        )
        return [(mine[0], yours[0]) for mine, yours in zip(ours, theirs, strict=True)]

    def options(self, num_beams: int) -> GenerationOptions:
        most = min(self.most_tokens, self.generation.longest(1) - 1)
        return replace(self.generation, num_beams=num_beams, num_return_sequences=1, max_new_tokens=most)


def measure(comparison: Comparison, references: Sequence[str] | None = None) -> tuple[Parity, Forced, list[list[int]]]:
    """Compare everything; give the figures, and the forced targets with where they differ most."""
    targets = comparison.original_greedy()
    forced = comparison.force(targets)
    greedy, beam = (comparison.outputs_of_all_sizes(beams, forced) for beams in (1, BEAMS))
    parity = Parity(
        sentences=len(comparison.sources),
        steps=forced.logits.steps,
        batch_sizes=BATCH_SIZES,
        device="cpu",
        cross_difference=rounded(forced.cross),
        logit_difference=rounded(forced.logits.largest),
        top1_agreement=forced.logits.same_top / forced.logits.steps,
        clear_agreement=forced.logits.same_clear / forced.logits.clear if forced.logits.clear else 1.0,
        mean_kl=rounded(forced.logits.divergence / forced.logits.steps),
        greedy_equal=min(map(_share_equal, greedy), default=0.0),
        beam_equal=min(map(_share_equal, beam), default=0.0),
        score_difference=rounded(max(map(_score_difference, [*greedy, *beam]), default=0.0)),
        quality=_quality(comparison.tokenizer, beam[-1], references) if references and beam else None,
    )
    return parity, forced, targets


def rounded(value: float) -> float:
    """Two figures are enough to judge, and do not change from run to run."""
    return float(f"{value:.1e}")


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
