"""Read a recipe file."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seq2edge.config.schema import SchemaError, read_strict
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.recipe.config import Recipe

OPEN = "?"  # the value of an open question in a draft


def read_recipe(path: Path) -> Recipe:
    """Read a recipe without open questions."""
    content = _read_toml(path)
    questions = list(open_questions(content))
    if questions:
        raise CheckpointError(f'{path} has open questions: replace the "{OPEN}" of {", ".join(questions)} with a value')
    try:
        return read_strict(Recipe, _with_defaults(content), where="recipe")
    except SchemaError as error:
        raise CheckpointError(f"{path} is not a valid recipe: {error}") from None


def open_questions(content: dict[str, Any], where: str = "") -> Iterator[str]:
    """Yield the keys whose value is still a question mark."""
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
    """Derive search options that the recipe leaves out from its special tokens and positions."""
    tokens, positions, generation = (content.get(key, {}) for key in ("tokens", "positions", "generation"))
    if not all(isinstance(table, dict) for table in (tokens, positions, generation)):
        return content  # refused later, with the name of the field
    defaults = {
        "decoder_start_token_id": tokens.get("bos"),
        "eos_token_id": tokens.get("eos"),
        "pad_token_id": tokens.get("pad"),
        "max_new_tokens": positions.get("max_positions"),
    }
    return {**content, "generation": {**defaults, **generation}}
