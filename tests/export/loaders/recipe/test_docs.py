"""docs/recipe.md explains every field of a recipe, and its example is valid."""

import re
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

from seq2edge.config.generation import GenerationOptions
from seq2edge_export.loaders.recipe.config import Recipe, RecipeModelSettings

PAGE = (Path(__file__).parents[4] / "docs" / "recipe.md").read_text(encoding="utf-8")


def test_every_field_is_explained() -> None:
    explained = set(re.findall(r"`\[?([a-z_]+)\]?`", PAGE))
    tables = {name: kind for name, kind in get_type_hints(Recipe).items() if is_dataclass(kind)}
    wanted = {field.name for field in fields(Recipe)}
    for kind in tables.values():
        wanted |= {field.name for field in fields(kind)} if kind is not GenerationOptions else set()
    assert wanted <= explained


def test_the_example_answers_every_question_of_the_draft() -> None:
    example = tomllib.loads(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])
    assert RecipeModelSettings(**example["model"]).heads == 8
    assert set(example["tokens"]) == {"pad", "bos", "eos", "unk"}
    assert example["tokenizer"]["kind"] == "words"
