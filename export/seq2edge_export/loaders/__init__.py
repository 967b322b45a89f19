"""Load checkpoints of every supported family; ``FAMILIES`` is the table of them.

To add a family, say ``example``:

1. Create ``loaders/example/`` with the same modules as the other families:

   - ``files``: find the files of a checkpoint and read their raw content. Never unpickle anything but tensors and plain
     values (``state_dict``).
   - ``config``: read the settings into a dataclass, list those that are not supported, and derive the ``Architecture``
     and the ``GenerationOptions``.
   - ``weights``: convert tensors to float and map them to the parameters of the ``Transformer`` (``weight_map``);
     return the position tables (``positions``).
   - ``vocabulary``: return the ``Tokenization`` and the ``SpecialTokens`` (``tokenizer_files``).
   - ``load``: ``recognizes(path) -> bool`` and ``load_example(path) -> Checkpoint``. Collect everything that is not
     supported in one error, check tensors with ``mismatches`` before memory is allocated, then ``fill`` the model.

   Another Hugging Face model derived from BART is one module in ``hugging_face/`` instead, such as ``bart``.
2. Add a line to ``FAMILIES``.
3. Write a builder of small seeded checkpoints in ``tests/support/example_model.py``, and tests in
   ``tests/export/loaders/test_example.py``: every variant has the outputs of the original framework (or of a reference
   implementation), and every unsupported setting and every broken file is refused.
4. Add a row to ``docs/families.md``; a test compares it with the table.

If the model needs an option that ``Architecture`` does not have, add it there, to ``model/`` and to the formula of the
number of parameters first, with tests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from seq2edge.errors import CheckpointError, Seq2EdgeError, UnexpectedLoadError, UsageError
from seq2edge_export import checkpoint
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders.ctranslate2 import load as ctranslate2
from seq2edge_export.loaders.fairseq import load as fairseq
from seq2edge_export.loaders.hugging_face import bart, m2m100, marian, mbart, pegasus, t5
from seq2edge_export.loaders.hugging_face.config import model_type
from seq2edge_export.loaders.hugging_face.load import download, is_hub_name
from seq2edge_export.loaders.marian import load as marian_native
from seq2edge_export.loaders.opennmt import load as opennmt
from seq2edge_export.loaders.recipe import load as recipe
from seq2edge_export.loaders.tokenizer_files import TokenizerChoice

AUTO = "auto"


@dataclass(frozen=True)
class Family:
    """The functions that recognize and load the checkpoints of a family."""

    recognizes: Callable[[Path], bool]
    load: Callable[[Path], Checkpoint]
    load_with: Callable[[Path, TokenizerChoice], Checkpoint] | None = None  # if vocabularies come without tokenizers


FAMILIES = {
    "bart": Family(bart.recognizes, bart.load_bart),
    "ctranslate2": Family(ctranslate2.recognizes, ctranslate2.load_ctranslate2, ctranslate2.load_ctranslate2),
    "fairseq": Family(fairseq.recognizes, fairseq.load_fairseq, fairseq.load_fairseq),
    "m2m100": Family(m2m100.recognizes, m2m100.load_m2m100),
    "marian": Family(marian.recognizes, marian.load_marian),
    "marian-native": Family(
        marian_native.recognizes, marian_native.load_marian_native, marian_native.load_marian_native
    ),
    "mbart": Family(mbart.recognizes, mbart.load_mbart),
    "opennmt": Family(opennmt.recognizes, opennmt.load_opennmt, opennmt.load_opennmt),
    "pegasus": Family(pegasus.recognizes, pegasus.load_pegasus),
    "recipe": Family(recipe.recognizes, recipe.load_recipe),
    "t5": Family(t5.recognizes, t5.load_t5),
    "seq2edge": Family(lambda path: path.is_dir() and not model_type(path), checkpoint.load_checkpoint),
}


def load_checkpoint(path: Path, family: str = AUTO, tokenizer: str = "") -> Checkpoint:
    """Load a checkpoint; ``auto`` asks every family whether it recognizes it. A name on the Hub is downloaded.

    ``tokenizer`` tells how texts are split, if the vocabulary comes without that (``TokenizerChoice.parse``).
    """
    if family != AUTO and family not in FAMILIES:
        raise UsageError(f"there is no family {family!r}, expected one of {', '.join(FAMILIES)}")
    path = download(path.as_posix()) if is_hub_name(path) else path.absolute()  # loaders join paths of its files
    name = detect(path) if family == AUTO else family
    load = partial(_load_with_tokenizer, name, TokenizerChoice.parse(tokenizer)) if tokenizer else FAMILIES[name].load
    try:
        return load(path)
    except (Seq2EdgeError, OSError):
        raise
    except Exception as error:  # files may contain anything, and not every consequence is checked
        raise UnexpectedLoadError(
            f"{path} cannot be read as a checkpoint of the family {name} ({type(error).__name__}: {error})"
        ) from error


def _load_with_tokenizer(name: str, choice: TokenizerChoice, path: Path) -> Checkpoint:
    load = FAMILIES[name].load_with
    if load is None:
        others = ", ".join(other for other, family in FAMILIES.items() if family.load_with)
        raise UsageError(f"{path} of the family {name} has its own tokenizer: --tokenizer is for the families {others}")
    return load(path, choice)


def detect(path: Path) -> str:
    """Return the name of the family that recognizes a path; a file with only weights has none."""
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    for name, family in FAMILIES.items():
        if family.recognizes(path):
            return name
    if model_type(path):
        raise CheckpointError(
            f"{path} is a Hugging Face model of the type {model_type(path)!r}, which is not supported; "
            f"the families are {', '.join(FAMILIES)}"
        )
    raise CheckpointError(
        f"{path} is not a checkpoint folder, a recipe (.toml), a model of Marian (.npz, .bin) or an Argos package "
        f"(.argosmodel); for a PyTorch state dict, draft a recipe with  seq2edge recipe {path}"
    )
