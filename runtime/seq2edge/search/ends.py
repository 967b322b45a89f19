"""Which tokens end an output; needs numpy."""

from collections.abc import Sequence

import numpy as np

from seq2edge.search.step import Flags, Ids


def is_end(tokens: Ids, eos: Sequence[int]) -> Flags:
    """True where a token is one of the few end tokens; several times faster than ``np.isin`` for so few."""
    found: Flags = (tokens[..., None] == np.asarray(eos)).any(axis=-1)
    return found
