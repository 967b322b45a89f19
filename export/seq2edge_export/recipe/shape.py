"""The shape of the model that a state dict holds; needs torch."""

from typing import Any

import torch

from seq2edge.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge_export.recipe.settings import Recipe
from seq2edge_export.state_dict import StateDict


def shape_of(recipe: Recipe, state: StateDict, problems: list[str]) -> Architecture:
    """What tensors and recipe say together; a setting that cannot be is a problem, and another stands in for it."""
    sizes = _sizes(recipe, state)
    try:
        return Architecture(**sizes, **_settings(recipe))
    except ValueError as error:
        problems.append(str(error))
        return Architecture(**sizes, heads=1, positions="none")


def count_layers(state: StateDict, prefix: str) -> int:
    start = f"{prefix}.layers."
    return len({name.removeprefix(start).split(".")[0] for name in state if name.startswith(start)})


def same(state: StateDict, first: str, second: str) -> bool:
    """Whether two names mean one tensor, be it saved twice."""
    one, other = state[first], state[second]
    return first == second or (one.dtype == other.dtype and torch.equal(one, other))


def _sizes(recipe: Recipe, state: StateDict) -> dict[str, Any]:
    names = recipe.tensors
    inner = f"{names.encoder}.layers.0.linear1.weight"
    _check_tables(state, [inner, names.source_embedding, names.target_embedding, names.output], recipe.weights)
    feed_forward, width = state[inner].shape
    return {
        "source_vocabulary": len(state[names.source_embedding]),
        "target_vocabulary": len(state[names.target_embedding]),
        "width": width,
        "feed_forward": feed_forward,
        "encoder_layers": count_layers(state, names.encoder),
        "decoder_layers": max(1, count_layers(state, names.decoder)),
        "final_norm": any(f"{stack}.norm.weight" in state for stack in (names.encoder, names.decoder)),
        "joint_vocabulary": same(state, names.source_embedding, names.target_embedding),
        "tied_output": same(state, names.target_embedding, names.output),
        "output_bias": bool(names.output_bias),
        "max_positions": recipe.positions.max_positions,
    }


def _settings(recipe: Recipe) -> dict[str, Any]:
    model, positions = recipe.model, recipe.positions
    return {
        "heads": model.heads,
        "norm_first": model.norm_first,
        "activation": model.activation,
        "norm_epsilon": model.norm_epsilon,
        "embedding_scale": None if model.embedding_scale == "sqrt" else model.embedding_scale,
        "positions": positions.kind,
        "position_offset": positions.offset if positions.kind.startswith("sinusoidal") else 0,
    }


def _check_tables(state: StateDict, names: list[str], weights: str) -> None:
    """Without these, nothing can be said of the others."""
    wrong = [name for name in names if name not in state or state[name].dim() != 2 or not state[name].numel()]
    if wrong:
        raise CheckpointError(f"{weights} has no table named {' nor '.join(wrong)}; it has {_some(list(state))}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
