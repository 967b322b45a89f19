"""The words that the sentences of a batch may be translated to, as a decoder is given them; needs numpy."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from seq2edge import names
from seq2edge.search import Ids, Scores


@dataclass(frozen=True, eq=False)
class Words:
    """Words of a batch of B sentences: U ids, what their logits are computed with, and who may say them."""

    ids: Ids  # (U,), in order
    matrix: Mapping[str, NDArray[Any]]  # by input
    bias: Scores  # (B, U): what is added to their logits, minus infinity where a sentence may not say a word

    def only(self, kept: Ids) -> "Words":
        """Some of the sentences."""
        return replace(self, bias=self.bias[kept])

    def inputs(self, bias: Scores) -> dict[str, NDArray[Any]]:
        """What the graph reads, with the bias in its shape."""
        return {**self.matrix, names.WORD_BIAS: bias}
