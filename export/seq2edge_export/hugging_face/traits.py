"""What the classes of the families do without being told by ``config.json``; needs nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Table = Literal["learned", "halves", "stretched"]


@dataclass(frozen=True, kw_only=True)
class Traits:
    """A descendant of BART; ``table`` is the kind of its positions, see ``positions.py``."""

    norm_first: bool
    final_norm: bool
    embedding_norm: bool
    table: Table
    defaults: Mapping[str, Any]  # of its configuration class, where they are not those of ``Config``

    @property
    def fixed(self) -> dict[str, Any]:
        """Settings of old that its class has no choice of any more, and what it does."""
        return {
            "normalize_before": self.norm_first,
            "add_final_layer_norm": self.final_norm,
            "normalize_embedding": self.embedding_norm,
            "static_position_embeddings": self.table == "halves",
        }
