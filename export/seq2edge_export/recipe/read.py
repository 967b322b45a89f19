"""Read a recipe file; needs nothing."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seq2edge.closed import ClosedError, read_closed
from seq2edge.errors import CheckpointError
from seq2edge_export.recipe.settings import Recipe

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
