"""Which tokens end an output; needs numpy."""

from collections.abc import Sequence

from seq2edge.search.step import Flags, Ids


def is_end(tokens: Ids, eos: Sequence[int]) -> Flags:
    """True where a token is one of the few end tokens; several times faster than ``np.isin`` for so few."""
    first, *others = eos
    found: Flags = tokens == first
    for other in others:
        found |= tokens == other
    return found
