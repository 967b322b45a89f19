"""The ids that mean something to the search; needs nothing."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Ids of padding, start, end and unknown; they belong to a model, not to the code."""

    pad: int
    bos: int
    eos: int
    unk: int
