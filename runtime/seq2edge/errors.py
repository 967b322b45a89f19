"""All errors that seq2edge raises deliberately.

::

    Seq2EdgeError                 one sentence: what was found, what was expected, what to do
    ├── UsageError                invalid arguments or options
    │   └── WrongValueError       an invalid value; also a ValueError
    ├── DataError                 text, training pairs or a vocabulary file that cannot be used
    │   ├── TextTooLongError      a text with more tokens than the model has positions
    │   └── CannotSplitError      a text that cannot be split to the maximum length; also a ValueError
    ├── CheckpointError           a checkpoint that is missing, broken or not supported
    │   └── UnexpectedLoadError   the loader failed in a way that it does not handle
    ├── BundleError               a bundle that is missing, broken or not supported
    │   ├── NotANumberError       the decoder returned NaN; also a FloatingPointError
    │   └── SignatureError        the bundle is not signed with the required key
    ├── TimeLimitError            a computation that took longer than allowed; also a TimeoutError
    ├── ParityError               a bundle that differs from the source model (exit code 1, all others 2)
    └── MissingExtraError         an optional dependency is not installed
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

# The extra that installs a package; onnxruntime has others too, for other devices.
EXTRAS = {
    "onnxruntime": "cpu",
    "tokenizers": "tokenizers",
    "sacremoses": "moses",
    "matplotlib": "plot",
    "cryptography": "sign",
    "pyarrow": "corpus",
    "ray": "ray",
    "huggingface_hub": "hub",
    "prometheus_client": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
    "py3langid": "detect",
    "onnx": "quantize",
    "onnx_ir": "quantize",
    "sacrebleu": "bleu",
    "onnxscript": "export",
    "rich": "export",
    "safetensors": "export",
    "torch": "export",
    "yaml": "export",
    "ctranslate2": "bench",
    "transformers": "bench",
}

MAX_LENGTH = 10_000  # characters: enough to list every reason why a checkpoint cannot be loaded
MAX_REASON_LENGTH = 500  # of one reason: huge names and values from hostile files are cut in the middle
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")  # line ends and terminal control characters


class Seq2EdgeError(Exception):
    """Base class; its text is one line for the user, whatever a file or a library put into it."""

    exit_code = 2

    def __str__(self) -> str:
        text = "; ".join(map(_shorten, _CONTROL.sub(" ", super().__str__()).split("; ")))
        return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}…"


def _shorten(reason: str) -> str:
    half = MAX_REASON_LENGTH // 2
    return reason if len(reason) <= MAX_REASON_LENGTH else f"{reason[:half]}…{reason[-half:]}"


class UsageError(Seq2EdgeError):
    """Arguments or options that do not exist or contradict each other."""


class WrongValueError(UsageError, ValueError):
    """A value that is never valid."""


class DataError(Seq2EdgeError):
    """Text, training pairs or vocabulary files that cannot be used."""


class TextTooLongError(DataError):
    """A text with more tokens than the model has positions; ``index`` counts the texts from 0."""

    def __init__(
        self, index: int, tokens: int, max_tokens: int, *, name: str = "text", advice: str = "shorten it"
    ) -> None:
        super().__init__(f"{name} {index + 1} has {tokens} tokens, but the model takes at most {max_tokens}; {advice}")
        self.index, self.tokens, self.max_tokens, self.name, self.advice = index, tokens, max_tokens, name, advice

    def shifted(self, offset: int) -> "TextTooLongError":
        """Return the same error for a text with ``offset`` more texts before it."""
        return TextTooLongError(self.index + offset, self.tokens, self.max_tokens, name=self.name, advice=self.advice)


class CannotSplitError(DataError, ValueError):
    """A text with a single character that has more tokens than a segment may have; ``index`` is that of the text."""

    index = 0


class CheckpointError(Seq2EdgeError):
    """A checkpoint folder that is missing, broken or not supported."""


class UnexpectedLoadError(CheckpointError):
    """A loader failed with an unexpected exception: a bug in seq2edge, reported in one line like other errors."""


class BundleError(Seq2EdgeError):
    """A bundle folder that is missing, broken or not supported."""


class NotANumberError(BundleError, FloatingPointError):
    """A decoder that returned NaN."""


class SignatureError(BundleError):
    """A bundle that is not signed with the required key, or was changed after signing."""


class TimeLimitError(Seq2EdgeError, TimeoutError):
    """A computation that took longer than its time limit."""


class ParityError(Seq2EdgeError):
    """A bundle whose outputs differ from those of the source model."""

    exit_code = 1


class MissingExtraError(Seq2EdgeError):
    """A package of an optional extra is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"this needs {package}, which is not installed: run  pip install 'seq2edge[{EXTRAS[package]}]'"
        )


@contextmanager
def imports_of_extras() -> Iterator[None]:
    """Turn the failed import of a package that an extra installs into an error that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingExtraError(package) from None


MAX_LISTED = 30


def listed(problems: list[str]) -> str:
    """Join the problems that an error names; of very many, only the first ones."""
    hidden = len(problems) - MAX_LISTED
    return "; ".join(problems[:MAX_LISTED]) + (f"; and {hidden:,} more" if hidden > 0 else "")
