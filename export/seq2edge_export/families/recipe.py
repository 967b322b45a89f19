"""The recipe family: a state dict named like nn.Transformer's, and a TOML file that says the rest; needs torch."""

from pathlib import Path

from seq2edge.errors import CheckpointError
from seq2edge.tokenization import Tokenization
from seq2edge_export.checkpoint import FORMAT_VERSION, Checkpoint, CheckpointConfig
from seq2edge_export.model import Transformer
from seq2edge_export.placing import fill
from seq2edge_export.recipe.files import tokenizer_files
from seq2edge_export.recipe.places import places
from seq2edge_export.recipe.positions import fill_positions, position_problems
from seq2edge_export.recipe.problems import setting_problems, tensor_problems, tokenizer_problems
from seq2edge_export.recipe.read import read_recipe
from seq2edge_export.recipe.settings import Recipe
from seq2edge_export.recipe.shape import shape_of
from seq2edge_export.state_dict import read_state_dict


def recognises(path: Path) -> bool:
    return path.suffix == ".toml"


def load_recipe(path: Path) -> Checkpoint:
    """Read a recipe and the files that it names; everything that does not fit is in one error."""
    recipe = read_recipe(path)
    state = read_state_dict(path.parent / recipe.weights)
    rules, files = tokenizer_files(recipe.tokenizer, path.parent)
    problems: list[str] = []
    model = Transformer(shape_of(recipe, state, problems))
    found = places(recipe, model.shape)
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
