"""The one interface between the search and a decoder."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.search.log_softmax import log_normalizer, log_normalizer_at
from seq2edge.search.top_k import top_k
from seq2edge.search.types import Ids, StepOutput, TopK


class DecoderState(ABC):
    """The KV cache of a batch, and the decoder that extends it by one call.

    A call has B sentences with K rows each. ``tokens`` (B, K, T) are the new tokens of each row: the whole prefix in
    the first call, where K is 1, and one token per row afterwards. ``rows`` (B, K) are the rows of the previous call
    that they continue, counted through the whole batch; in the first call these are the indices of the sentences.

    The rows of one sentence always continue rows of one sentence, so ``rows[:, 0] // K_before`` tells which sentences
    are left. A sentence that was dropped does not come back, and the order stays. K is the same in all later calls.
    """

    selects_on_device = False  # true if ``top_k`` saves copying the logits from the device

    @abstractmethod
    def step(self, tokens: Ids, rows: Ids) -> StepOutput:
        """Append the tokens to the cache and return the logits of the next position."""

    def extend(self, tokens: list[int]) -> StepOutput:
        """Append one token to each row, where every row continues itself; K is 1."""
        return self.step(np.array(tokens)[:, None, None], np.arange(len(tokens))[:, None])

    def top_k(self, tokens: Ids, rows: Ids, k: int) -> TopK:
        """Append the tokens and return the k most likely next tokens, or all of a smaller vocabulary."""
        output = self.step(tokens, rows)
        logits = output.logits.reshape(rows.size, -1)  # (R, V)
        if k == 1:
            best: Ids = logits.argmax(axis=1)  # (R,)
            peak = logits[np.arange(len(logits)), best][:, None]  # (R, 1)
            log_probabilities = -log_normalizer_at(logits, peak, output.log_normalizer)
        else:
            peak, log_total = log_normalizer(logits, output.log_normalizer)  # (R, 1) each
            best, values = top_k(logits, min(k, logits.shape[1]))  # (R, k) each
            log_probabilities = (values - peak) - log_total
        shape = (*rows.shape, -1)
        return TopK(best.reshape(shape), log_probabilities.reshape(shape))

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]:
        """The cross-attention keys and values of the batch by name, before the first call; empty if not exposed."""
        return {}
