"""Let a step choose the best tokens itself, where the options leave it the choice; needs numpy."""

from typing import cast

import numpy as np

from seq2edge.errors import NotANumberError
from seq2edge.search.processors import Processors
from seq2edge.search.step import ChoosingStep, Ids, Scores, Step

MOST_FORBIDDEN = 64  # with more of them, all scores are looked at


class Choice:
    """What a search asks a step that can choose."""

    def __init__(self, step: ChoosingStep, processors: Processors) -> None:
        self.step, self.processors = step, processors

    def best(self, tokens: Ids, rows: Ids, count: int, length: int) -> tuple[Ids, Scores] | None:  # (B, K, count) each
        """The best tokens that sequences of this length may have next; None where all scores have to be seen.

        Where some are forbidden, so many more are asked for, and those are left out.
        """
        forbidden = self.processors.forbidden(length)
        if forbidden is None or len(forbidden) > MOST_FORBIDDEN:
            return None
        wanted = min(count + len(forbidden), self.step.vocabulary)
        chosen, scores = self.step.best(tokens, rows, wanted)
        if np.isnan(scores).any():
            raise NotANumberError("the decoder gave scores that are not numbers (NaN): try a higher precision")
        return _allowed(chosen, scores, forbidden, count) if forbidden else (chosen, scores)


def choice_of(step: Step, processors: Processors) -> Choice | None:
    """None where the step cannot; asking for the whole protocol takes as long as a step of a small model."""
    return Choice(cast(ChoosingStep, step), processors) if hasattr(step, "best") else None


def _allowed(chosen: Ids, scores: Scores, forbidden: tuple[int, ...], count: int) -> tuple[Ids, Scores]:
    banned = np.isin(chosen, forbidden)
    scores = np.where(banned, np.float32(-np.inf), scores)
    order = np.argsort(banned, axis=-1, kind="stable")[..., :count]  # those that are allowed first
    return np.take_along_axis(chosen, order, axis=-1), np.take_along_axis(scores, order, axis=-1)
