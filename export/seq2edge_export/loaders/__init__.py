"""The families of checkpoints that can be exported: a new one is one file and one line in the table."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seq2edge.errors import CheckpointError, Seq2EdgeError, UnforeseenError, UsageError
from seq2edge_export import checkpoint
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders.ctranslate2 import load as ctranslate2
from seq2edge_export.loaders.fairseq import load as fairseq
from seq2edge_export.loaders.hugging_face import bart, m2m100, marian, mbart, pegasus, t5
from seq2edge_export.loaders.hugging_face.config import model_type
from seq2edge_export.loaders.hugging_face.hub import download, is_hub_name
from seq2edge_export.loaders.marian import load as marian_native
from seq2edge_export.loaders.opennmt import load as opennmt
from seq2edge_export.loaders.recipe import load as recipe

AUTO = "auto"


@dataclass(frozen=True)
class Family:
    """How to tell that a path is a family's checkpoint, and how to read it."""

    recognises: Callable[[Path], bool]
    load: Callable[[Path], Checkpoint]


FAMILIES = {
    "bart": Family(bart.recognises, bart.load_bart),
    "ctranslate2": Family(ctranslate2.recognises, ctranslate2.load_ctranslate2),
    "fairseq": Family(fairseq.recognises, fairseq.load_fairseq),
    "m2m100": Family(m2m100.recognises, m2m100.load_m2m100),
    "marian": Family(marian.recognises, marian.load_marian),
    "marian-native": Family(marian_native.recognises, marian_native.load_marian_native),
    "mbart": Family(mbart.recognises, mbart.load_mbart),
    "opennmt": Family(opennmt.recognises, opennmt.load_opennmt),
    "pegasus": Family(pegasus.recognises, pegasus.load_pegasus),
    "recipe": Family(recipe.recognises, recipe.load_recipe),
    "t5": Family(t5.recognises, t5.load_t5),
    "seq2edge": Family(lambda path: path.is_dir() and not model_type(path), checkpoint.load_checkpoint),
}


def load_checkpoint(path: Path, family: str = AUTO) -> Checkpoint:
    """Read a checkpoint of a family, or of the one that its path looks like; a name on the Hub is downloaded."""
    if family != AUTO and family not in FAMILIES:
        raise UsageError(f"there is no family {family!r}; there are {', '.join(FAMILIES)}")
    path = download(path.as_posix()) if is_hub_name(path) else path
    name = detect(path) if family == AUTO else family
    try:
        return FAMILIES[name].load(path)
    except (Seq2EdgeError, OSError):
        raise
    except Exception as error:  # the files may hold anything, and what it leads to cannot all be foreseen
        raise UnforeseenError(
            f"{path} cannot be read as a checkpoint of the family {name} ({type(error).__name__}: {error})"
        ) from error


def detect(path: Path) -> str:
    """The family of a path; a file of weights alone has none."""
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    for name, family in FAMILIES.items():
        if family.recognises(path):
            return name
    if model_type(path):
        raise CheckpointError(
            f"{path} is a Hugging Face model of the type {model_type(path)!r}, which is no family; "
            f"there are {', '.join(FAMILIES)}"
        )
    raise CheckpointError(
        f"{path} is neither a checkpoint folder nor a recipe (.toml) nor a model of Marian (.npz, .bin) nor an "
        f"Argos package (.argosmodel); "
        f"for a PyTorch state dict, draft a recipe with  seq2edge recipe {path}"
    )
