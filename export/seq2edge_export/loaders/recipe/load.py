"""Load a state dict with the tensor names of ``nn.Transformer`` and a TOML file that describes the rest."""

from pathlib import Path

from seq2edge.errors import CheckpointError, listed
from seq2edge_export.checkpoint import Checkpoint, CheckpointConfig
from seq2edge_export.loaders.positions import fill_positions
from seq2edge_export.loaders.recipe.config import Recipe, architecture_of, length_problems
from seq2edge_export.loaders.recipe.files import read_recipe
from seq2edge_export.loaders.recipe.vocabulary import token_problems, tokenizer_problems
from seq2edge_export.loaders.recipe.weights import position_problems, position_tables, tensor_problems, weight_map
from seq2edge_export.loaders.state_dict import read_state_dict
from seq2edge_export.loaders.tokenizer_files import with_bundle_names
from seq2edge_export.loaders.weight_map import fill
from seq2edge_export.model.transformer import Transformer


def recognizes(path: Path) -> bool:
    return path.suffix == ".toml"


def load_recipe(path: Path) -> Checkpoint:
    """Load a recipe and the files that it names; one error lists everything that does not match."""
    return load_model(read_recipe(path), path)


def load_model(recipe: Recipe, path: Path) -> Checkpoint:
    """Load the model that a recipe describes, relative to the path of the recipe."""
    state = read_state_dict(path.parent / recipe.weights)
    tokenization, files = with_bundle_names(recipe.tokenizer, path.parent)
    problems: list[str] = []
    model = Transformer(architecture_of(recipe, state, problems))
    mappings = weight_map(recipe, model.architecture)
    problems += tensor_problems(recipe, state, mappings, model)
    problems += position_problems(recipe.positions, state, model.architecture)
    problems += [*token_problems(recipe, model.architecture), *length_problems(recipe)]
    problems += tokenizer_problems(recipe, tokenization, files, model.architecture)
    if problems:
        raise CheckpointError(f"{path} does not match {recipe.weights}: {listed(problems)}")
    fill(model, mappings, state)
    fill_positions(model, position_tables(recipe.positions, state))
    languages = (recipe.source_language, recipe.target_language)
    config = CheckpointConfig.create(
        model.architecture, recipe.tokens, tokenization, languages, recipe.license, recipe.attribution
    )
    return Checkpoint("recipe", config, recipe.generation, model.eval(), tokenization, files)
