"""The recipe family: a state dict named like nn.Transformer's, and a TOML file that says the rest.

Read a recipe file.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seq2edge.config.schema import ClosedError, read_closed
from seq2edge.config.tokenizer import Tokenization
from seq2edge.errors import CheckpointError
from seq2edge_export.checkpoint import FORMAT_VERSION, Checkpoint, CheckpointConfig
from seq2edge_export.loaders.recipe.config import Recipe, fill_positions, position_problems, shape_of
from seq2edge_export.loaders.recipe.files import setting_problems, tensor_problems, tokenizer_files, tokenizer_problems
from seq2edge_export.loaders.recipe.weights import weight_map
from seq2edge_export.loaders.state_dict import read_state_dict
from seq2edge_export.loaders.weight_map import fill
from seq2edge_export.model.transformer import Transformer

OPEN = "?"  # the value of what nobody has answered yet


def read_recipe(path: Path) -> Recipe:
    """Read a recipe whose questions are all answered."""
    content = _read_toml(path)
    questions = list(open_questions(content))
    if questions:
        raise CheckpointError(f'{path} has open questions: replace the "{OPEN}" of {", ".join(questions)} by a value')
    try:
        return read_closed(Recipe, _with_defaults(content), where="recipe")
    except ClosedError as error:
        raise CheckpointError(f"{path} is not as it should be: {error}") from None


def open_questions(content: dict[str, Any], where: str = "") -> Iterator[str]:
    """The keys whose value is still a question mark."""
    for key, value in content.items():
        if value == OPEN:
            yield where + key
        elif isinstance(value, dict):
            yield from open_questions(value, f"{where}{key}.")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise CheckpointError(f"{path} is not TOML in UTF-8 ({error})") from None


def _with_defaults(content: dict[str, Any]) -> dict[str, Any]:
    """The search starts and ends with the special tokens, and fills the positions, unless the recipe says otherwise."""
    tokens, positions, given = (content.get(key, {}) for key in ("tokens", "positions", "generation"))
    if not all(isinstance(table, dict) for table in (tokens, positions, given)):
        return content  # which is refused
    defaults = {
        "decoder_start_token_id": tokens.get("bos"),
        "eos_token_id": tokens.get("eos"),
        "pad_token_id": tokens.get("pad"),
        "max_new_tokens": positions.get("max_positions"),
    }
    return {**content, "generation": {**defaults, **given}}


def recognises(path: Path) -> bool:
    return path.suffix == ".toml"


def load_recipe(path: Path) -> Checkpoint:
    """Read a recipe and the files that it names; everything that does not fit is in one error."""
    recipe = read_recipe(path)
    state = read_state_dict(path.parent / recipe.weights)
    rules, files = tokenizer_files(recipe.tokenizer, path.parent)
    problems: list[str] = []
    model = Transformer(shape_of(recipe, state, problems))
    found = weight_map(recipe, model.shape)
    problems += tensor_problems(recipe, state, found, model)
    problems += position_problems(recipe.positions, state, model.shape)
    problems += setting_problems(recipe, model.shape)
    problems += tokenizer_problems(recipe, rules, files, model.shape)
    if problems:
        raise CheckpointError(f"{path} does not fit {recipe.weights}: {'; '.join(problems)}")
    fill(model, found, state)
    fill_positions(model, recipe.positions, state)
    return Checkpoint("recipe", _config(recipe, rules, model), recipe.generation, model.eval(), rules, files)


def _config(recipe: Recipe, rules: Tokenization, model: Transformer) -> CheckpointConfig:
    return CheckpointConfig(
        format_version=FORMAT_VERSION,
        architecture=model.shape,
        tokens=recipe.tokens,
        source_tokenizer=rules.source,
        target_tokenizer=rules.target,
        source_language=recipe.source_language,
        target_language=recipe.target_language,
        license=recipe.license,
        attribution=recipe.attribution,
    )
