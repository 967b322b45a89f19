"""Notice when the options or a hook leave no token to choose; needs numpy."""

import numpy as np

from seq2edge.errors import WrongValueError
from seq2edge.search.step import Scores


def one_is_forbidden(scores: Scores) -> bool:
    """Whether one of some scores, which must be numbers, is that of a forbidden token."""
    return bool(np.minimum.reduce(scores, axis=None, initial=np.inf) == -np.inf)


def check_allowed(best: Scores) -> None:
    """Refuse best scores of which one is forbidden: whatever was chosen there would be made up."""
    if one_is_forbidden(best):
        raise WrongValueError("the options or the hook forbid every token, so none can be chosen: allow at least one")
