"""Arrays and small records that the search, the decoders and the callers exchange.

Shapes at line ends: B sentences with K rows each, R = B * K rows, T tokens, V the vocabulary size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
Flags = NDArray[np.bool_]


class StepOutput(NamedTuple):
    """What one decoder call returns; the search may overwrite the arrays, and so may the next call."""

    logits: Scores  # (B, K, V), of the last position
    log_normalizer: Scores | None = None  # (R,): log(sum(exp(logits - max))), if the decoder has computed it


class TopK(NamedTuple):
    """The most likely next tokens of each row, best first; ties are in the order of the token ids."""

    tokens: Ids  # (B, K, k)
    log_probabilities: Scores  # (B, K, k)


class Hook(Protocol):
    """A caller's function that sees, and may change, the scores of the next token: -inf forbids one.

    ``sentences`` are the ids of the sentences that the rows belong to, ``tokens`` the output so far with its prefix.
    """

    def __call__(self, sentences: Ids, tokens: Ids, scores: Scores) -> Scores: ...  # (R,), (R, T), (R, V) -> (R, V)


@dataclass(frozen=True)
class BatchContext:
    """What a search knows of its sentences besides their tokens.

    The ids decide which random numbers a sentence draws, so that it draws the same ones in every batch. Segments of
    one text share its sentence id and differ in their segment id.
    """

    sentence_ids: Sequence[int] | None = None  # 0, 1, ... if left out
    segment_ids: Sequence[int] | None = None  # all 0 if left out
    hook: Hook | None = None
