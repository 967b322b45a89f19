"""Choose the precision of each weight of a bundle: the fewest bits within a limit of the loss of BLEU.

1. Measure: quantize each group of weights (an attention, a feed-forward, an embedding) alone to the fewest bits, and
   measure the divergence of the next-token distributions from those of the float32 bundle.
2. Rank: the group with the largest divergence per element comes first.
3. Search: quantize all groups to the fewest bits, then all but the first, all but the first two, and so on, keeping
   these in more bits. Bisection finds the smallest number of such groups within the limit, measuring BLEU each time.
4. If even all groups in 8 bits exceed the limit, repeat the search from 8 bits to float16.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from seq2edge.bundle.bundle import Bundle, Precision
from seq2edge.errors import ParityError
from seq2edge_graphs.parity.measure import corpus_quality
from seq2edge_graphs.parity.record import BEAMS
from seq2edge_graphs.quantize.apply import Plan
from seq2edge_graphs.quantize.calibration import NO_CALIBRATION, Calibration
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.rewrite import compare_bundles, load_graphs, temporary_bundle
from seq2edge_graphs.quantize.weights import quantizable_weights

LADDER: tuple[tuple[Precision, Precision], ...] = (("int4", "int8"), ("int8", "fp16"))
RANKING_SENTENCES = 32  # enough to rank: the divergence is measured at every token
BATCH_SIZE = 16


@dataclass(frozen=True)
class WeightGroup:
    """Weights that get the same precision."""

    name: str
    weights: tuple[str, ...]
    elements: int
    divergence: float = 0.0  # mean in nats, with all other weights in float32


@dataclass(frozen=True)
class PrecisionChoice:
    """The chosen precisions, and the measurements they are based on."""

    plan: Plan
    groups: list[WeightGroup]  # the largest divergence per element first
    bleu_fp32: float
    bleu: float

    def precision(self, group: WeightGroup) -> Precision:
        return self.plan[group.weights[0]]


def choose_precisions(
    bundle: Bundle,
    config: QuantizationConfig,
    calibration: Calibration = NO_CALIBRATION,
    progress: Callable[[str], None] = lambda _: None,
) -> PrecisionChoice:
    """Return the plan with the fewest bits whose loss of BLEU on the texts is within the limit."""
    assert config.texts is not None
    assert config.references is not None
    limit = config.max_bleu_loss
    assert limit is not None
    trials = _PrecisionTrials(bundle, config.texts, config.references, calibration, progress)
    groups = trials.rank(group_weights(bundle))
    for fewer, more in LADDER:
        plans = [plan_groups(groups, count, fewer, more) for count in range(len(groups) + 1)]
        if trials.loss(plans[-1]) <= limit:
            plan = _first_within(plans, lambda plan: trials.loss(plan) <= limit)
            return PrecisionChoice(plan, groups, trials.bleu_fp32, trials.bleu_fp32 - trials.loss(plan))
    raise ParityError(f"no precision below fp32 loses at most {limit} BLEU on these sentences")


def group_weights(bundle: Bundle) -> list[WeightGroup]:
    """Group the weights by the module that they belong to, in the order of the model."""
    sizes = {
        weight.name: weight.array().size
        for model in load_graphs(bundle).values()
        for weight in quantizable_weights(model.graph)
    }
    members: dict[str, list[str]] = {}
    for name in sizes:
        members.setdefault(_module(name), []).append(name)
    return [WeightGroup(name, tuple(names), sum(sizes[one] for one in names)) for name, names in members.items()]


def plan_groups(groups: Sequence[WeightGroup], count: int, fewer: Precision, more: Precision) -> dict[str, Precision]:
    """Plan more bits for the first ``count`` groups and fewer for the others."""
    return {weight: more if rank < count else fewer for rank, group in enumerate(groups) for weight in group.weights}


def _module(weight: str) -> str:
    """Return ``encoder.0.attention`` for ``encoder.0.attention.query.weight``; other names are their own module."""
    pieces = weight.split(".")
    return ".".join(pieces[:3]) if len(pieces) > 3 and pieces[1].isdigit() else weight


def _first_within(plans: Sequence[Plan], is_within: Callable[[Plan], bool]) -> Plan:
    """Bisect for the first plan within the limit; assumes that later plans are no worse and the last one is within."""
    return plans[bisect_left(plans, True, key=is_within, hi=len(plans) - 1)]


class _PrecisionTrials:
    """Measures plans on the sentences, each once."""

    def __init__(
        self,
        bundle: Bundle,
        texts: Sequence[str],
        references: Sequence[str],
        calibration: Calibration,
        progress: Callable[[str], None],
    ) -> None:
        self.bundle, self.texts, self.references, self.calibration = bundle, texts, references, calibration
        self.progress = progress
        self.losses: dict[tuple[Precision, ...], float] = {}
        self.bleu_fp32 = 0.0

    def rank(self, groups: list[WeightGroup]) -> list[WeightGroup]:
        """Return the groups with their divergence, the largest per element first."""
        texts = self.texts[:RANKING_SENTENCES]
        targets = compare_bundles(self.bundle, self.bundle, texts).source_targets()
        measured = []
        for number, group in enumerate(groups, start=1):
            self.progress(f"measuring the divergence of {group.name} ({number} of {len(groups)})")
            with temporary_bundle(self.bundle, dict.fromkeys(group.weights, LADDER[0][0]), self.calibration) as trial:
                logits = compare_bundles(trial, self.bundle, texts).forced_difference(targets, BATCH_SIZE).logits
            measured.append(replace(group, divergence=logits.mean_kl))
        return sorted(measured, key=lambda group: -group.divergence / group.elements)

    def loss(self, plan: Plan) -> float:
        """Return the loss of BLEU of a plan."""
        key = tuple(plan.values())
        if key not in self.losses:
            counts = ", ".join(f"{key.count(one)} in {one}" for one in dict.fromkeys(key))
            self.progress(f"translating with {counts}")
            self.losses[key] = self._measure_loss(plan)
        return self.losses[key]

    def _measure_loss(self, plan: Plan) -> float:
        with temporary_bundle(self.bundle, plan, self.calibration) as trial:
            comparison = compare_bundles(trial, self.bundle, self.texts)
            pairs = comparison.hypothesis_pairs(BEAMS, BATCH_SIZE)
        quality = corpus_quality(comparison.tokenizer, pairs, self.references)
        self.bleu_fp32 = quality.bleu_original
        return round(quality.bleu_original - quality.bleu_bundle, 2)
