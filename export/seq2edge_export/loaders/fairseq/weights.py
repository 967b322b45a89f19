"""Rename the tensors of old fairseq versions, and find its embeddings and position tables.

With the names of the newest version, the weight map is that of BART in Hugging Face.
"""

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2edge.config.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.fairseq.config import TOKENS, FairseqModelSettings
from seq2edge_export.loaders.hugging_face.weights import POSITIONS, Embeddings, same_tensor
from seq2edge_export.loaders.positions import Tables, stretched_sinusoids
from seq2edge_export.loaders.state_dict import StateDict

SOURCE, TARGET = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
OUTPUT = "model.decoder.output_projection.weight"
FIRST_ROW = TOKENS.pad + 1  # of position tables: earlier rows belong to padding
MAX_POSITIONS = 100_000  # of fairseq's formula
NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
OLD_NORM = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.layer_norms\.(\d)\.(weight|bias)")
FUSED = re.compile(r"(.+_attn)\.in_proj_(weight|bias)")  # query, key and value
# Copies of encoder layers that fairseq 0.12 fills when it loads, and version numbers.
NOT_WEIGHTS = re.compile(
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)|"
    r"(encoder|decoder)\.(version|embed_positions\.(weights|_float_tensor))"
)
FINAL_NORM_SINCE = {"encoder": 2, "decoder": 3}  # version of the model's code


def read_tensors(content: dict[str, Any], path: Path) -> StateDict:
    """Return the tensors under ``model`` with the names of the file."""
    model = content.get("model")
    if not isinstance(model, dict) or not all(isinstance(tensor, Tensor) for tensor in model.values()):
        raise CheckpointError(f"{path} is not a checkpoint of fairseq: there are no tensors under 'model'")
    return {str(name): tensor for name, tensor in model.items()}


def final_norms(state: StateDict) -> dict[str, bool]:
    """Return for each side whether its version has a final norm, if its norms are before the sublayers."""
    versions = {side: state.get(f"{side}.version") for side in FINAL_NORM_SINCE}
    return {
        side: version is not None and version.numel() > 0 and float(version.flatten()[0]) >= FINAL_NORM_SINCE[side]
        for side, version in versions.items()
    }


def upgraded(state: StateDict) -> StateDict:
    """Return the weights with the names of the newest version after the prefix ``model.``."""
    renamed: StateDict = {}
    for name, tensor in state.items():
        if NOT_WEIGHTS.fullmatch(name):
            continue
        if parts := FUSED.fullmatch(name):
            for letter, part in zip("qkv", tensor.chunk(3), strict=False):
                renamed[f"model.{parts[1]}.{letter}_proj.{parts[2]}"] = part
        else:
            renamed[f"model.{_new_name(name)}"] = tensor
    return renamed


def _new_name(name: str) -> str:
    if name == "decoder.embed_out":
        return "decoder.output_projection.weight"
    match = OLD_NORM.fullmatch(name)
    if not match or int(match[3]) >= len(NORMS[match[1]]):
        return name
    side, layer, number, kind = match.groups()
    return f"{side}.layers.{layer}.{NORMS[side][int(number)]}.{kind}"


def find_embeddings(settings: FairseqModelSettings, state: StateDict) -> Embeddings:
    """Find the embeddings; those that are shared in the settings or equal are one tensor."""
    source = SOURCE
    target = source if settings.share_all_embeddings or same_tensor(state, source, TARGET) else TARGET
    tied = settings.share_all_embeddings or settings.share_decoder_input_output_embed
    return Embeddings(source, target, target if tied or same_tensor(state, OUTPUT, target) else OUTPUT, bias=False)


def count_positions(settings: FairseqModelSettings, state: StateDict) -> int:
    """Return the number of positions on both sides; a table of the wrong shape is ignored here and reported later."""
    counts = {"encoder": settings.max_source_positions, "decoder": settings.max_target_positions}
    for side in learned_sides(settings):
        table = state.get(POSITIONS[side])
        if table is not None and table.dim() == 2 and len(table) > FIRST_ROW:
            counts[side] = len(table) - FIRST_ROW
    return min(*counts.values(), MAX_POSITIONS)


def position_tables(settings: FairseqModelSettings, state: StateDict, architecture: Architecture) -> Tables:
    """Return the used rows of the stored or computed position tables."""
    if settings.no_token_positional_embeddings:
        return {}
    learned = learned_sides(settings)
    return {
        side: state[name][FIRST_ROW : FIRST_ROW + architecture.max_positions]
        if side in learned
        else stretched_sinusoids(architecture.width, first=FIRST_ROW, count=architecture.max_positions)
        for side, name in POSITIONS.items()
    }


def learned_sides(settings: FairseqModelSettings) -> list[str]:
    """Return the sides whose position tables are stored."""
    if settings.no_token_positional_embeddings:
        return []
    return [side for side in POSITIONS if getattr(settings, f"{side}_learned_pos")]


def table_problems(names: list[str], state: StateDict, width: int) -> list[str]:
    """List the stored position tables that are missing or wrong."""
    problems = (_table_problem(name, state.get(name), width) for name in sorted(names))
    return [problem for problem in problems if problem]


def _table_problem(name: str, table: Tensor | None, width: int) -> str:
    if table is None:
        return f"{name} is missing"
    if table.dim() != 2 or table.shape[1] != width or len(table) <= FIRST_ROW:
        return f"{name} has shape {tuple(table.shape)}, expected more than {FIRST_ROW} rows of {width}"
    is_finite = table.is_floating_point() and torch.isfinite(table).all()
    return "" if is_finite else f"{name} contains NaN or infinity, or is not floating point"
