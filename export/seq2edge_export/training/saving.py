"""One sentence for everything that can go wrong while files are written; needs safetensors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from seq2edge.errors import DataError


@contextmanager
def saving(folder: Path) -> Iterator[None]:
    """Turn a full disk or a folder that refuses into one error, whichever writer meets it.

    Nothing but writing may stand inside: PyTorch and safetensors wrap the system's error in errors of their own.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        raise DataError(
            f"{folder} cannot be written ({_reason(error)}); whatever was saved before is still whole, "
            "so make room or another --output, and go on with --resume if the training had begun"
        ) from None


def _reason(error: BaseException) -> str:
    """What the system said, which may stand behind what a library said."""
    cause = error.__context__ if isinstance(error.__context__, OSError) else error
    return str(getattr(cause, "strerror", None) or cause).lower()
