"""Compare the translations of a recipe's model with those of the user's own program.

A wrong number of heads and some other settings match all tensors, so that only translations show the mistake.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from seq2edge.config.architecture import Activation
from seq2edge.errors import CheckpointError, ParityError, TextTooLongError
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.loaders.recipe.config import Recipe
from seq2edge_export.loaders.recipe.files import read_recipe
from seq2edge_export.loaders.recipe.load import load_model
from seq2edge_export.source_model import translate_with_torch


@dataclass(frozen=True)
class TextPair:
    """A text and its translation by the user's own program."""

    source: str
    expected: str


def check_recipe(path: Path, pairs: Sequence[TextPair]) -> None:
    """Raise an error if any translation differs; white space does not count."""
    checkpoint = load_checkpoint(path)
    wrong = _differences(checkpoint, pairs)
    if not wrong:
        return
    pair, found = wrong[0]
    raise ParityError(
        f"{path} translates {pair.source!r} to {found!r} instead of {pair.expected!r} ({len(wrong)} of {len(pairs)} "
        f"differ): {_advice(path, checkpoint, pairs)}"
    )


def _differences(checkpoint: Checkpoint, pairs: Sequence[TextPair]) -> list[tuple[TextPair, str]]:
    model, texts = checkpoint.source_model(), [pair.source for pair in pairs]
    for index, ids in enumerate(model.tokenizer().encode(texts)):
        if len(ids) > model.max_positions:
            raise TextTooLongError(index, len(ids), model.max_positions, name="source")
    found = translate_with_torch(model, texts, num_beams=model.generation.num_beams)
    compared = zip(pairs, found, strict=True)
    return [(pair, text) for pair, text in compared if "".join(text.split()) != "".join(pair.expected.split())]


def _advice(path: Path, checkpoint: Checkpoint, pairs: Sequence[TextPair]) -> str:
    """Return which other setting would give the expected translations, if one does."""
    recipe = read_recipe(path)
    for section, name, value in _alternatives(recipe, checkpoint.model.architecture.width):
        changed = replace(getattr(recipe, section), **{name: value})
        with suppress(CheckpointError, TextTooLongError):
            if not _differences(load_model(replace(recipe, **{section: changed}), path.absolute()), pairs):
                before = getattr(getattr(recipe, section), name)
                return f"they are equal if {name} in [{section}] is {value!r} instead of {before!r}"
    return "check [model], [tokens] and [tokenizer], and whether both use the same search"


def _alternatives(recipe: Recipe, width: int) -> Iterator[tuple[str, str, Any]]:
    """Yield other values of each setting that the tensors do not show."""
    choices: dict[tuple[str, str], list[Any]] = {
        ("model", "heads"): [heads for heads in range(1, width + 1) if width % heads == 0],
        ("model", "norm_first"): [False, True],
        ("model", "activation"): [*get_args(Activation)],
        ("model", "embedding_scale"): ["sqrt", 1.0],
        ("tokenizer", "source_bos"): [False, True],
        ("tokenizer", "source_eos"): [False, True],
        ("tokenizer", "lowercase"): [False, True],
    }
    for (section, name), values in choices.items():
        current = getattr(getattr(recipe, section), name)
        yield from ((section, name, value) for value in values if value != current)
