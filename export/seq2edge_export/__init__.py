"""Load checkpoints, train models in PyTorch, and export them as bundles."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2edge_export.export import export_bundle, export_module
    from seq2edge_export.tracing.user_module import Seq2SeqModule

__all__ = ["Seq2SeqModule", "export_bundle", "export_module"]
_MODULES = {"Seq2SeqModule": "tracing.user_module", "export_bundle": "export", "export_module": "export"}


def __getattr__(name: str) -> Any:
    """Import PyTorch only when it is needed, so that ``seq2edge train --help`` is fast."""
    if name not in _MODULES:
        raise AttributeError(f"module 'seq2edge_export' has no attribute {name!r}")
    from importlib import import_module

    from seq2edge.errors import imports_of_extras

    with imports_of_extras():
        return getattr(import_module(f"seq2edge_export.{_MODULES[name]}"), name)
