"""Choose a precision for each part of a bundle: as few bits as the translations allow.

1. Damage: each group of weights (an attention, a feed-forward, an embedding) is rounded to the fewest bits alone, and
   the divergence of the next-token distributions from those of the original is measured.
2. Order: the group with the most damage for the bytes it saves comes first.
3. Search: all groups in the fewest bits, then the first of the order in more bits, then the first two, and so on. The
   number that is needed is found by bisection, measuring BLEU each time.
4. If even all groups in 8 bits lose too much, the same again from 8 bits to float16.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seq2edge.bundle.bundle import Bundle, Precision
from seq2edge.errors import ParityError
from seq2edge_graphs.parity.measure import BEAMS, quality
from seq2edge_graphs.quantize.apply import Grams, Plan
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.rewrite import compare_bundles, load_graphs, temporary_bundle
from seq2edge_graphs.quantize.weights import quantizable_weights

LADDER: tuple[tuple[Precision, Precision], ...] = (("int4", "int8"), ("int8", "fp16"))
BITS: dict[Precision, float] = {"fp32": 32, "fp16": 16, "int8": 8, "int4": 4.5}  # with scales
DAMAGE_SENTENCES = 32  # enough to rank: the divergence is measured at every token
BATCH = 16


@dataclass(frozen=True)
class WeightGroup:
    """Weights that are rounded together."""

    name: str
    parts: tuple[str, ...]
    numbers: int
    damage: float = 0.0  # mean divergence in nats, with all other weights as they were


@dataclass(frozen=True)
class PrecisionChoice:
    """What was chosen, and why."""

    plan: Plan
    groups: list[WeightGroup]  # the most damage for its bytes first
    bleu_original: float
    bleu: float

    def precision(self, group: WeightGroup) -> Precision:
        return self.plan[group.parts[0]]


def choose_precisions(
    bundle: Bundle, wish: QuantizationConfig, grams: Grams | None = None, say: Callable[[str], None] = lambda _: None
) -> PrecisionChoice:
    """The plan with the fewest bits whose loss of BLEU on the texts is within the limit."""
    assert wish.texts is not None
    assert wish.references is not None
    limit = wish.max_bleu_loss
    assert limit is not None
    trials = _PrecisionTrials(bundle, wish.texts, wish.references, grams, say)
    groups = trials.ranked(groups_of(bundle))
    for fewer, more in LADDER:
        plans = [plan_of(groups, count, fewer, more) for count in range(len(groups) + 1)]
        if trials.loss(plans[-1]) <= limit:
            plan = _first(plans, lambda plan: trials.loss(plan) <= limit)
            return PrecisionChoice(plan, groups, trials.bleu_original, trials.bleu_original - trials.loss(plan))
    raise ParityError(f"no precision below fp32 loses at most {limit} BLEU on these sentences")


def groups_of(bundle: Bundle) -> list[WeightGroup]:
    """Weights by the module that they are in; the order is that of the model."""
    sizes = {
        part.name: part.numbers().size
        for model in load_graphs(bundle).values()
        for part in quantizable_weights(model.graph)
    }
    members: dict[str, list[str]] = {}
    for name in sizes:
        members.setdefault(_module(name), []).append(name)
    return [WeightGroup(name, tuple(parts), sum(sizes[part] for part in parts)) for name, parts in members.items()]


def plan_of(groups: Sequence[WeightGroup], count: int, fewer: Precision, more: Precision) -> dict[str, Precision]:
    """The first ``count`` groups in more bits, the others in fewer."""
    return {part: more if place < count else fewer for place, group in enumerate(groups) for part in group.parts}


def _module(weight: str) -> str:
    """``encoder.0.attention.query.weight`` belongs to ``encoder.0.attention``; other names stand for themselves."""
    pieces = weight.split(".")
    return ".".join(pieces[:3]) if len(pieces) > 3 and pieces[1].isdigit() else weight


def _first(plans: Sequence[Plan], is_enough: Callable[[Plan], bool]) -> Plan:
    """The first plan that is enough, by bisection: a later one is taken to be no worse, and the last one is enough."""
    return plans[bisect_left(plans, True, key=is_enough, hi=len(plans) - 1)]


class _PrecisionTrials:
    """Measures plans on the sentences, each once."""

    def __init__(
        self,
        bundle: Bundle,
        texts: Sequence[str],
        references: Sequence[str],
        grams: Grams | None,
        say: Callable[[str], None],
    ) -> None:
        self.bundle, self.texts, self.references, self.grams, self.say = bundle, texts, references, grams, say
        self.losses: dict[tuple[Precision, ...], float] = {}
        self.bleu_original = 0.0

    def ranked(self, groups: list[WeightGroup]) -> list[WeightGroup]:
        """The groups with their damage, the most for its bytes first."""
        few = self.texts[:DAMAGE_SENTENCES]
        targets = compare_bundles(self.bundle, self.bundle, few).original_greedy()
        measured = []
        for place, group in enumerate(groups, start=1):
            self.say(f"measuring what {group.name} costs ({place} of {len(groups)})")
            with temporary_bundle(self.bundle, dict.fromkeys(group.parts, LADDER[0][0]), self.grams) as trial:
                logits = compare_bundles(trial, self.bundle, few).force(targets, BATCH).logits
            measured.append(WeightGroup(group.name, group.parts, group.numbers, logits.divergence / logits.steps))
        return sorted(measured, key=lambda group: -group.damage / group.numbers)

    def loss(self, plan: Plan) -> float:
        """How much BLEU a plan costs."""
        key = tuple(plan.values())
        if key not in self.losses:
            counts = ", ".join(f"{key.count(one)} in {one}" for one in dict.fromkeys(key))
            self.say(f"translating with {counts}")
            self.losses[key] = self._measure(plan)
        return self.losses[key]

    def _measure(self, plan: Plan) -> float:
        with temporary_bundle(self.bundle, plan, self.grams) as trial:
            comparison = compare_bundles(trial, self.bundle, self.texts)
            pairs = comparison.outputs(BEAMS, BATCH)
        decode = comparison.tokenizer.decode
        ours, theirs = (decode([found.tokens for found in side]) for side in zip(*pairs, strict=True))
        found = quality(theirs, ours, self.references)
        self.bleu_original = found.bleu_original
        return round(found.bleu_original - found.bleu_bundle, 2)
