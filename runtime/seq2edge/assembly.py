"""Hypotheses to translations, and translations of parts to that of the whole text; needs numpy."""

from collections.abc import Sequence
from dataclasses import replace

from seq2edge.attention import joined as joined_attention
from seq2edge.fitting import join
from seq2edge.generation import GenerationOptions
from seq2edge.loops import repeats
from seq2edge.parts import Part
from seq2edge.search import Hypothesis
from seq2edge.search.hypothesis import length_normaliser
from seq2edge.tokenizer import Tokenizer
from seq2edge.translation import Translation


def translation_of(part: Part, found: Hypothesis, prefix: tuple[int, ...], tokenizer: Tokenizer) -> Translation:
    """What one hypothesis says."""
    tokens = (*prefix, *found.tokens)
    inside = tokenizer.frame.inside(part.ids)
    return Translation(
        text=tokenizer.decode([tokens])[0],
        tokens=tokens,
        score=found.score,
        token_scores=tuple(found.token_scores),
        ended=found.ended,
        repeats=repeats(tokens, part.ids[inside.start : inside.stop]),
        truncated=part.truncated,
        unknown=part.unknown,
    )


def best_first(ranked: list[Translation]) -> Translation:
    """The best, with the others as its alternatives."""
    return replace(ranked[0], alternatives=tuple(ranked[1:]))


def of_whole_text(parts: Sequence[list[Translation]], options: GenerationOptions) -> list[Translation]:
    """The translations of a text, best first, from those of its parts: the n-th best of each part makes the n-th."""
    if len(parts) == 1:
        return parts[0]
    count = max(len(ranked) for ranked in parts)
    return [_joined([ranked[min(rank, len(ranked) - 1)] for ranked in parts], options) for rank in range(count)]


def _joined(parts: list[Translation], options: GenerationOptions) -> Translation:
    token_scores = tuple(score for part in parts for score in part.token_scores)
    attentions = [part.attention for part in parts if part.attention is not None]
    normal = length_normaliser(len(token_scores), options.length_penalty) if options.num_beams > 1 else 1
    return Translation(
        text=join([part.text for part in parts]),
        tokens=tuple(token for part in parts for token in part.tokens),
        score=sum(token_scores) / normal,
        token_scores=token_scores,
        ended=all(part.ended for part in parts),
        repeats=any(part.repeats for part in parts),
        parts=len(parts),
        truncated=any(part.truncated for part in parts),
        unknown=sum(part.unknown for part in parts),
        attention=joined_attention(attentions) if attentions else None,
    )
