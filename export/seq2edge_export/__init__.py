"""seq2edge's export layer: checkpoints, the PyTorch model, its trainer, and the way to a bundle."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2edge_export.export import export_bundle, export_module
    from seq2edge_export.tracing.user_module import Seq2SeqModule

__all__ = ["Seq2SeqModule", "export_bundle", "export_module"]
_PLACES = {"Seq2SeqModule": "tracing.user_module", "export_bundle": "export", "export_module": "export"}


def __getattr__(name: str) -> Any:
    """Load PyTorch when something that needs it is first named, so that ``seq2edge train --help`` answers at once."""
    if name not in _PLACES:
        raise AttributeError(f"module 'seq2edge_export' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"seq2edge_export.{_PLACES[name]}"), name)
