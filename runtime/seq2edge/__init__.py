"""seq2edge's runtime: translate with exported encoder-decoder Transformers, without PyTorch.

>>> from seq2edge import Translator
>>> translator = Translator("bundle/")
>>> translator.translate(["Good morning."])[0].text
"""

from typing import TYPE_CHECKING, Any

from seq2edge.errors import Seq2EdgeError

if TYPE_CHECKING:
    from seq2edge.translator import Translation, Translator

__version__ = "0.1.0"
__all__ = ["Seq2EdgeError", "Translation", "Translator", "__version__"]


def __getattr__(name: str) -> Any:
    """Load the translator when it is first named, so that the command line answers at once."""
    if name in ("Translation", "Translator"):
        from seq2edge import translator

        return getattr(translator, name)
    raise AttributeError(f"module 'seq2edge' has no attribute {name!r}")
