"""The tokenizer files of a recipe, and their names in a bundle.

Everything in which a recipe and its state dict do not fit together.
"""

from dataclasses import asdict, replace
from pathlib import Path

from seq2edge.config.architecture import Architecture
from seq2edge.config.tokenizer import Tokenization
from seq2edge.errors import DataError
from seq2edge.text.tokenizer import load_tokenizer
from seq2edge_export.loaders.recipe.config import Recipe
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.loaders.weight_map import WeightMapping, shape_mismatch
from seq2edge_export.model.transformer import Transformer


def tokenizer_files(rules: Tokenization, folder: Path) -> tuple[Tokenization, dict[str, Path]]:
    """The same rules with plain file names, and the files that will have them."""
    source, target = _names("tokenizer", rules.source, rules.target)
    source_codes, target_codes = _names("codes", rules.source_codes, rules.target_codes)
    new = replace(rules, source=source, target=target, source_codes=source_codes, target_codes=target_codes)
    pairs = (
        (new.source, rules.source),
        (new.target, rules.target),
        (new.source_codes, rules.source_codes),
        (new.target_codes, rules.target_codes),
    )
    return new, {name: folder / path for name, path in pairs if name}


def _names(what: str, source: str, target: str) -> tuple[str, str]:
    """Plain names that keep the suffix: one for a file that both sides use, else one a side."""
    if source == target:
        return (what + Path(source).suffix,) * 2 if source else ("", "")
    return f"source.{what}{Path(source).suffix}", f"target.{what}{Path(target).suffix}"


def tensor_problems(recipe: Recipe, state: StateDict, found: list[WeightMapping], model: Transformer) -> list[str]:
    """Tensors that are missing, surplus, of another shape, or hold no numbers."""
    names, positions = recipe.tensors, recipe.positions
    known = {place.theirs for place in found} | {positions.source, positions.target, *names.ignore}
    missing = sorted({place.theirs for place in found if place.theirs not in state})
    problems = [f"{name} is missing" for name in missing]
    problems += [f"{name} has no place in the model (tensors.ignore leaves it out)" for name in state.keys() - known]
    problems += [f"{name} is to be ignored, but is not there" for name in names.ignore if name not in state]
    problems += [shape_mismatch(place, state[place.theirs], model) for place in found if place.theirs in state]
    return sorted(filter(None, problems))


def setting_problems(recipe: Recipe, shape: Architecture) -> list[str]:
    """Ids and lengths that the model does not have."""
    smallest = min(shape.source_vocabulary, shape.target_vocabulary)
    problems = [
        f"tokens.{name} is {number}, but the ids of the model are 0 to {smallest - 1}"
        for name, number in asdict(recipe.tokens).items()
        if not 0 <= number < smallest
    ]
    most = recipe.positions.max_positions
    lengths = {
        "generation.max_new_tokens": recipe.generation.longest(1) - 1,
        "tokenizer.source_length": recipe.tokenizer.source_length,
    }
    return problems + [
        f"{name} is {length}, but positions.max_positions is {most}"
        for name, length in lengths.items()
        if length > most
    ]


def tokenizer_problems(recipe: Recipe, rules: Tokenization, files: dict[str, Path], shape: Architecture) -> list[str]:
    """Vocabulary files that cannot be read or have more tokens than the model."""
    try:
        tokenizer = load_tokenizer(rules, recipe.tokens, files)
    except DataError as error:
        return [str(error)]
    sides = (
        (recipe.tokenizer.source, tokenizer.source, shape.source_vocabulary),
        (recipe.tokenizer.target, tokenizer.target, shape.target_vocabulary),
    )
    return [
        f"{name} has {vocabulary.get_piece_size()} tokens, but the model has {size}"
        for name, vocabulary, size in sides
        if vocabulary.get_piece_size() > size
    ]
