"""What a peer is given to prepare itself; needs torch."""

from dataclasses import dataclass
from pathlib import Path

from seq2edge.errors import CheckpointError
from seq2edge_export.model import Transformer
from seq2edge_export.original import Original


@dataclass(frozen=True, kw_only=True)
class Request:
    """The model, where it came from, and a folder to write to."""

    original: Original
    checkpoint: Path
    precisions: tuple[str, ...]  # wanted beside those of the bundles: fp32, int8
    folder: Path
    optimum_python: Path | None = None

    @property
    def model(self) -> Transformer:
        return transformer_of(self.original)


def transformer_of(original: Original) -> Transformer:
    """The model of an original; a module of its own kind has no place in any other tool."""
    model = getattr(original.graphs.encoder, "model", None)
    if not isinstance(model, Transformer):
        raise CheckpointError("a module of its own kind cannot be given to another tool; leave out --against")
    return model


def folder_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
