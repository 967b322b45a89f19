"""Compare two decoders step by step."""

import numpy as np
from tiny_checkpoint import TINY
from tolerances import network_rounding

from seq2edge.search import DecoderState

LOGITS = network_rounding(TINY, size=10)


def assert_steps_close(ours: DecoderState, theirs: DecoderState, count: int, *, prefix: int, beams: int) -> None:
    """Check that logits are close for random tokens and rows, while sentences leave the batch."""
    random = np.random.default_rng(0)
    rows = np.arange(count)[:, None]
    tokens = random.integers(4, TINY.target_vocabulary, (count, 1, prefix))
    np.testing.assert_allclose(ours.step(tokens, rows).logits, theirs.step(tokens, rows).logits, atol=LOGITS)
    for step in range(8):
        before = 1 if step == 0 else beams
        left = np.arange(count)
        if step in (2, 4, 5):
            left = np.delete(left, random.integers(count))
            count -= 1
        rows = left[:, None] * before + random.integers(0, before, (count, beams))
        tokens = random.integers(4, TINY.target_vocabulary, (count, beams, 1))
        np.testing.assert_allclose(ours.step(tokens, rows).logits, theirs.step(tokens, rows).logits, atol=LOGITS)
