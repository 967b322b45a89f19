"""The tensors of a fairseq model by the names that its newest version gives them."""

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.state_dict import StateDict

NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
OLD_NORM = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.layer_norms\.(\d)\.(weight|bias)")
TOGETHER = re.compile(r"(.+_attn)\.in_proj_(weight|bias)")  # queries, keys and values
# Another copy of an encoder layer, which fairseq 0.12 fills when it loads; and numbers that are no weights.
NO_WEIGHT = re.compile(
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)|"
    r"(encoder|decoder)\.(version|embed_positions\.(weights|_float_tensor))"
)
FINAL_NORM_SINCE = {"encoder": 2, "decoder": 3}  # the version of the model's code


def read_tensors(content: dict[str, Any], path: Path) -> StateDict:
    """The tensors under ``model``, as they are in the file."""
    found = content.get("model")
    if not isinstance(found, dict) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise CheckpointError(f"{path} is no checkpoint of fairseq: there are no tensors under 'model'")
    return {str(name): tensor for name, tensor in found.items()}


def final_norms(state: StateDict) -> dict[str, bool]:
    """Whether a side is of a version that has a norm at its end, if it has norms before its sublayers."""
    versions = {side: state.get(f"{side}.version") for side in FINAL_NORM_SINCE}
    return {
        side: version is not None and version.numel() > 0 and float(version.flatten()[0]) >= FINAL_NORM_SINCE[side]
        for side, version in versions.items()
    }


def upgraded(state: StateDict) -> StateDict:
    """The same with new names, each preceded by ``model.``, and without what is no weight."""
    new: StateDict = {}
    for name, tensor in state.items():
        if NO_WEIGHT.fullmatch(name):
            continue
        if parts := TOGETHER.fullmatch(name):
            for letter, part in zip("qkv", tensor.chunk(3), strict=False):
                new[f"model.{parts[1]}.{letter}_proj.{parts[2]}"] = part
        else:
            new[f"model.{_renamed(name)}"] = tensor
    return new


def _renamed(name: str) -> str:
    if name == "decoder.embed_out":
        return "decoder.output_projection.weight"
    found = OLD_NORM.fullmatch(name)
    if not found or int(found[3]) >= len(NORMS[found[1]]):
        return name
    return f"{found[1]}.layers.{found[2]}.{NORMS[found[1]][int(found[3])]}.{found[4]}"
