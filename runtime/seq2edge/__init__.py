"""seq2edge's runtime: translate with exported encoder-decoder Transformers, without PyTorch.

>>> from seq2edge import Translator
>>> translator = Translator("bundle/")
>>> translator.translate(["Good morning."])[0].text
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from seq2edge.errors import Seq2EdgeError

if TYPE_CHECKING:
    from seq2edge.config.generation import GenerationOptions
    from seq2edge.config.text import TextOptions
    from seq2edge.results import Score, Summary, Translation
    from seq2edge.translator import Translator

    __version__: str

# Otherwise onnxruntime writes a device id to the home directory and reports to its maker; child processes inherit this.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__all__ = [
    "GenerationOptions",
    "Score",
    "Seq2EdgeError",
    "Summary",
    "TextOptions",
    "Translation",
    "Translator",
    "__version__",
]

HOMES = {
    "GenerationOptions": "config.generation",
    "Score": "results",
    "Summary": "results",
    "TextOptions": "config.text",
    "Translation": "results",
    "Translator": "translator",
}


def __getattr__(name: str) -> Any:
    """Load a class when it is first named, and the version, so that the command line answers at once."""
    if name == "__version__":
        return _version()
    if name not in HOMES:
        raise AttributeError(f"module 'seq2edge' has no attribute {name!r}")
    return getattr(import_module(f"seq2edge.{HOMES[name]}"), name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("seq2edge")
    except PackageNotFoundError:  # a checkout that is not installed
        return "0+unknown"
