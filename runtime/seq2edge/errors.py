"""Every error that seq2edge raises on purpose.

::

    Seq2EdgeError                 one sentence: what was found, what was wanted, what to do
    ├── UsageError                wrong arguments or options
    │   └── WrongValueError       a value that cannot be; also a ValueError
    ├── DataError                 text, training pairs or a dictionary file that cannot be used
    │   ├── TextTooLongError      a text with more tokens than the model has positions
    │   └── CannotSplitError      a text that cannot be cut small enough; also a ValueError
    ├── CheckpointError           a checkpoint that is missing, broken or not supported
    │   └── UnforeseenError       reading it failed in a way that its reader does not know of
    ├── BundleError               a bundle that is missing, broken or not supported
    │   ├── NotANumberError       its decoder gives scores that are not numbers
    │   └── SignatureError        it is not signed with the key that is required
    ├── ParityError               a bundle that does not say what the original says (exit code 1, all others 2)
    └── MissingExtraError         an optional dependency is not installed
"""

import re

LONGEST = 10_000  # characters: room for every reason why a checkpoint cannot be read
LONGEST_REASON = 500  # of one of them: giant names and values out of hostile files are cut in the middle
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")  # what ends a line, or steers a terminal


class Seq2EdgeError(Exception):
    """Root of the tree; its text is one sentence for the user, in one line, whatever a file or a library has said."""

    exit_code = 2

    def __str__(self) -> str:
        text = "; ".join(map(_shortened, _BREAKS.sub(" ", super().__str__()).split("; ")))
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _shortened(reason: str) -> str:
    half = LONGEST_REASON // 2
    return reason if len(reason) <= LONGEST_REASON else f"{reason[:half]}…{reason[-half:]}"


class UsageError(Seq2EdgeError):
    """The caller asked for something that does not exist or does not fit together."""


class WrongValueError(UsageError, ValueError):
    """A value that cannot be, whatever the rest is."""


class DataError(Seq2EdgeError):
    """Text, training pairs or dictionary files that cannot be used."""


class TextTooLongError(DataError):
    """A text with more tokens than the model has positions; ``place`` counts the texts from 0."""

    def __init__(
        self, place: int, tokens: int, longest: int, *, name: str = "text", advice: str = "shorten it"
    ) -> None:
        super().__init__(f"{name} {place + 1} has {tokens} tokens, but the model has room for {longest}; {advice}")
        self.place, self.tokens, self.longest, self.name, self.advice = place, tokens, longest, name, advice

    def behind(self, others: int) -> "TextTooLongError":
        """The same error where other texts came before."""
        return TextTooLongError(self.place + others, self.tokens, self.longest, name=self.name, advice=self.advice)


class CannotSplitError(DataError, ValueError):
    """A text of which even one character has more tokens than a piece may have."""


class CheckpointError(Seq2EdgeError):
    """A checkpoint folder that is missing, broken or not supported."""


class UnforeseenError(CheckpointError):
    """A checkpoint whose reader failed where it should have refused: still one sentence, but a fault of ours."""


class BundleError(Seq2EdgeError):
    """A bundle folder that is missing, broken or not supported."""


class NotANumberError(BundleError, FloatingPointError):
    """A decoder that gives scores which are not numbers."""


class SignatureError(BundleError):
    """A bundle that is not signed with the key that is required, or was changed since."""


class ParityError(Seq2EdgeError):
    """A bundle that does not say what the original says."""

    exit_code = 1


class MissingExtraError(Seq2EdgeError):
    """A package that only an extra brings is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}, which is not installed: run  pip install 'seq2edge[{extra}]'")
