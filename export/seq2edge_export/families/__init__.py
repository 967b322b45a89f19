"""The families of checkpoints that can be exported: a new one is one file and one line in the table; needs torch."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seq2edge.errors import CheckpointError, UsageError
from seq2edge_export import checkpoint
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.families import ctranslate2, recipe, t5

AUTO = "auto"


@dataclass(frozen=True)
class Family:
    """How to tell that a path is a family's checkpoint, and how to read it."""

    recognises: Callable[[Path], bool]
    load: Callable[[Path], Checkpoint]


FAMILIES = {
    "ctranslate2": Family(ctranslate2.recognises, ctranslate2.load_ctranslate2),
    "recipe": Family(recipe.recognises, recipe.load_recipe),
    "t5": Family(t5.recognises, t5.load_t5),
    "seq2edge": Family(Path.is_dir, checkpoint.load_checkpoint),
}


def load_checkpoint(path: Path, family: str = AUTO) -> Checkpoint:
    """Read a checkpoint of a family, or of the one that its path looks like."""
    if family != AUTO and family not in FAMILIES:
        raise UsageError(f"there is no family {family!r}; there are {', '.join(FAMILIES)}")
    return FAMILIES[detect(path) if family == AUTO else family].load(path)


def detect(path: Path) -> str:
    """The family of a path; a file of weights alone has none."""
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    for name, family in FAMILIES.items():
        if family.recognises(path):
            return name
    raise CheckpointError(
        f"{path} is neither a checkpoint folder nor a recipe (.toml) nor an Argos package (.argosmodel); "
        f"for a PyTorch state dict, draft a recipe with  seq2edge recipe {path}"
    )
