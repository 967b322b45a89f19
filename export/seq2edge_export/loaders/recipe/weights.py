"""Map the tensors of an ``nn.Transformer`` and check its position tables."""

from collections.abc import Iterator

import torch
from torch import Tensor

from seq2edge.config.architecture import Architecture
from seq2edge_export.loaders.positions import Tables, as_table, is_sinusoidal
from seq2edge_export.loaders.recipe.config import PositionSettings, Recipe
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.loaders.weight_map import WeightMapping, mismatches
from seq2edge_export.model.transformer import Transformer

# their module -> our module, within a layer
ENCODER = {
    "self_attn.out_proj": "attention.output",
    "norm1": "attention_residual.norm",
    "linear1": "feed_forward.inner",
    "linear2": "feed_forward.output",
    "norm2": "feed_forward_residual.norm",
}
DECODER = ENCODER | {
    "multihead_attn.out_proj": "cross.output",
    "norm2": "cross_residual.norm",
    "norm3": "feed_forward_residual.norm",
}
ATTENTIONS = {"self_attn": "attention", "multihead_attn": "cross"}


def weight_map(recipe: Recipe, architecture: Architecture) -> list[WeightMapping]:
    """Map every parameter except positions."""
    names, kinds = recipe.tensors, ("weight", "bias") if recipe.model.bias else ("weight",)
    mappings = [
        WeightMapping(names.source_embedding, ("source_embedding.tokens.weight",)),
        WeightMapping(names.target_embedding, ("target_embedding.tokens.weight",)),
        WeightMapping(names.output, ("output.weight",)),
    ]
    if names.output_bias:
        mappings.append(WeightMapping(names.output_bias, ("output.bias",)))
    for kind in kinds:
        for layer in range(architecture.encoder_layers):
            mappings += _layer(f"{names.encoder}.layers.{layer}", f"encoder.{layer}", ENCODER, kind)
        for layer in range(architecture.decoder_layers):
            mappings += _layer(f"{names.decoder}.layers.{layer}", f"decoder.{layer}", DECODER, kind)
        if architecture.final_norm:
            mappings.append(WeightMapping(f"{names.encoder}.norm.{kind}", (f"encoder_norm.{kind}",)))
            mappings.append(WeightMapping(f"{names.decoder}.norm.{kind}", (f"decoder_norm.{kind}",)))
    return mappings


def _layer(theirs: str, ours: str, modules: dict[str, str], kind: str) -> Iterator[WeightMapping]:
    for their_module, our_module in modules.items():
        yield WeightMapping(f"{theirs}.{their_module}.{kind}", (f"{ours}.{our_module}.{kind}",))
    for their_module, our_module in ATTENTIONS.items():
        if f"{their_module}.out_proj" in modules:
            parts = tuple(f"{ours}.{our_module}.{part}.{kind}" for part in ("query", "key", "value"))
            yield WeightMapping(f"{theirs}.{their_module}.in_proj_{kind}", parts)


def tensor_problems(recipe: Recipe, state: StateDict, mappings: list[WeightMapping], model: Transformer) -> list[str]:
    """List the tensors that do not match the recipe, except position tables."""
    positions, ignore = recipe.positions, recipe.tensors.ignore
    problems = mismatches(state, mappings, model, ignored={positions.source, positions.target, *ignore})
    problems += [f"tensors.ignore names {name}, which does not exist" for name in ignore if name not in state]
    if any(problem.endswith("is unexpected") for problem in problems):
        problems.append("name tensors that are not needed in tensors.ignore")
    return problems


def position_problems(settings: PositionSettings, state: StateDict, architecture: Architecture) -> list[str]:
    """List the position tables that are missing or wrong."""
    names = dict.fromkeys(name for name in (settings.source, settings.target) if name)
    problems = (_position_problem(name, settings, state, architecture) for name in names)
    return [problem for problem in problems if problem]


def position_tables(settings: PositionSettings, state: StateDict) -> Tables:
    """Return the used rows of the position tables that the recipe names."""
    names = {"encoder": settings.source, "decoder": settings.target}
    return {side: _used_rows(as_table(state[name]), settings) for side, name in names.items() if name}


def _position_problem(name: str, settings: PositionSettings, state: StateDict, architecture: Architecture) -> str:
    if name not in state:
        return f"{name} is missing"
    table, rows = as_table(state[name]), settings.offset + settings.max_positions
    if table.dim() != 2 or table.shape[1] != architecture.width or len(table) < rows:
        return f"{name} has shape {tuple(state[name].shape)}, expected ({rows} or more, {architecture.width})"
    if not torch.isfinite(table).all():
        return f"{name} contains NaN or infinity"
    is_formula = architecture.positions.startswith("sinusoidal")
    if is_formula and not is_sinusoidal(_used_rows(table, settings), architecture):
        return f"{name} is not the table of {architecture.positions} positions (kind = 'learned' accepts any table)"
    return ""


def _used_rows(table: Tensor, settings: PositionSettings) -> Tensor:
    return table[settings.offset : settings.offset + settings.max_positions]
