"""Compare two explanations of the same text: find where the models part."""

from dataclasses import dataclass

import numpy as np

from seq2edge.explain.explanation import Explanation
from seq2edge.explain.replay import AttentionMaps
from seq2edge.search import Scores


@dataclass(frozen=True, kw_only=True)
class ExplainedDifference:
    """How two explanations differ, as far as they can be compared."""

    same_source: bool  # the same tokens
    same_translation: bool
    common_steps: int  # steps with the same inputs; the translations part in the last of them unless they are equal
    parted: int | None  # the first step that chose another token
    log_probabilities: tuple[float, ...]  # second minus first, of the token that the first has chosen
    heads: dict[str, Scores]  # by kind of attention: the largest difference of a weight (L, H)
    reasons: tuple[str, ...]  # sentences about what cannot be compared


def compare(first: Explanation, second: Explanation) -> ExplainedDifference:
    """Compare two explanations; steps are comparable as long as both models have read the same tokens."""
    reasons = list(_reasons(first, second))
    same_source = first.source == second.source
    comparable = same_source and not reasons
    common = _common(first.inputs, second.inputs) if comparable else 0
    ours, theirs = first.translation.tokens, second.translation.tokens
    parted = next((step for step in range(common) if ours[step] != theirs[step]), None)
    return ExplainedDifference(
        same_source=same_source,
        same_translation=first.translation.text == second.translation.text,
        common_steps=common,
        parted=parted,
        log_probabilities=tuple(_change(first, second, step) for step in range(common)),
        heads=_heads(first, second, common) if comparable else {},
        reasons=tuple(reasons),
    )


def _reasons(first: Explanation, second: Explanation) -> list[str]:
    if first.source != second.source or _pieces_differ(first, second):
        return ["The models have other tokens, so only the translations can be compared."]
    return []


def _pieces_differ(first: Explanation, second: Explanation) -> bool:
    return any(first.pieces[token] != second.pieces[token] for token in first.pieces.keys() & second.pieces.keys())


def _common(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    same = [one == other for one, other in zip(first, second, strict=False)]
    return same.index(False) if False in same else len(same)


def _change(first: Explanation, second: Explanation, step: int) -> float:
    token, logits = first.steps[step].chosen, second.replay.logits[step].astype(np.float64)
    peak = logits.max()
    log_probability = logits[token] - peak - np.log(np.exp(logits - peak).sum())
    return float(log_probability - first.steps[step].log_probability)


def _heads(first: Explanation, second: Explanation, steps: int) -> dict[str, Scores]:
    """Return the largest difference of a weight for every head of layers that both models have."""
    theirs = {maps.kind: maps for maps in second.replay.attention}
    found: dict[str, Scores] = {}
    for maps in first.replay.attention:
        other = theirs.get(maps.kind)
        if other is not None and maps.weights.shape[:2] == other.weights.shape[:2]:
            found[maps.kind] = _largest(maps, other, steps)
    return found


def _largest(maps: AttentionMaps, other: AttentionMaps, steps: int) -> Scores:  # (L, H)
    rows = maps.weights.shape[2] if maps.kind == "encoder" else steps
    columns = steps if maps.kind == "decoder" else maps.weights.shape[3]
    some = slice(None), slice(None), slice(rows), slice(columns)
    largest: Scores = np.abs(maps.weights[some] - other.weights[some]).max(axis=(2, 3))
    return largest
