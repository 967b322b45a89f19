"""Convert CTranslate2's variables to float32 and map them to the Transformer.

Integers are dequantized with the same rounding as in CTranslate2's own float32 mode.
"""

import re
from collections.abc import Collection, Iterator

import numpy as np
import torch
from torch import Tensor

from seq2edge.config.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.ctranslate2.files import SCALE, Array, Variables
from seq2edge_export.loaders.positions import Tables
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.loaders.weight_map import WeightMapping

MAX_POSITIONS = 1024  # CTranslate2 truncates longer sources; tables may have more rows
INT16_SCALE = np.float32(1000)  # of int16 weights without a stored scale
SOURCES = ("encoder/embeddings_0/weight", "encoder/embeddings/weight")  # the second name is that of old models
TARGET = "decoder/embeddings/weight"
OUTPUT, OUTPUT_BIAS = "decoder/projection/weight", "decoder/projection/bias"
POSITIONS = {side: f"{side}/position_encodings/encodings" for side in ("encoder", "decoder")}

# their linear layer or norm -> our modules, within a layer
SELF = {
    "self_attention/linear_0": ("attention.query", "attention.key", "attention.value"),
    "self_attention/linear_1": ("attention.output",),
    "self_attention/layer_norm": ("attention_residual.norm",),
}
CROSS = {
    "attention/linear_0": ("cross.query",),
    "attention/linear_1": ("cross.key", "cross.value"),
    "attention/linear_2": ("cross.output",),
    "attention/layer_norm": ("cross_residual.norm",),
}
FEED_FORWARD = {
    "ffn/linear_0": ("feed_forward.inner",),
    "ffn/linear_1": ("feed_forward.output",),
    "ffn/layer_norm": ("feed_forward_residual.norm",),
}
FINAL_NORM, EMBEDDING_NORM = "layer_norm", "layernorm_embedding"
GATED = FEED_FORWARD | {"ffn/linear_0": ("feed_forward.gate",), "ffn/linear_0_noact": ("feed_forward.inner",)}
TOP = {f"{side}/{norm}" for side in POSITIONS for norm in (FINAL_NORM, EMBEDDING_NORM)}
LAYER = re.compile(r"^(?:encoder|decoder)/layer_\d+/")


def weight_map(architecture: Architecture, names: Collection[str]) -> list[WeightMapping]:
    """Map every parameter except positions; linear layers without a bias in ``names`` have none."""
    mappings = [
        WeightMapping(source_embedding(names), ("source_embedding.tokens.weight",)),
        WeightMapping(TARGET, ("target_embedding.tokens.weight",)),
        WeightMapping(OUTPUT, ("output.weight",)),
    ]
    if architecture.output_bias:
        mappings.append(WeightMapping(OUTPUT_BIAS, ("output.bias",)))
    feed_forward = GATED if architecture.gated else FEED_FORWARD
    for layer in range(architecture.encoder_layers):
        mappings += _modules(f"encoder/layer_{layer}", f"encoder.{layer}", SELF | feed_forward, names)
    for layer in range(architecture.decoder_layers):
        mappings += _modules(f"decoder/layer_{layer}", f"decoder.{layer}", SELF | CROSS | feed_forward, names)
    for side, embedding in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        if architecture.final_norm:
            mappings += _module(f"{side}/{FINAL_NORM}", (f"{side}_norm",), names)
        if architecture.embedding_norm:
            mappings += _module(f"{side}/{EMBEDDING_NORM}", (f"{embedding}.norm",), names)
    return mappings


def _modules(
    theirs: str, ours: str, modules: dict[str, tuple[str, ...]], names: Collection[str]
) -> Iterator[WeightMapping]:
    for their_module, our_modules in modules.items():
        yield from _module(f"{theirs}/{their_module}", tuple(f"{ours}.{module}" for module in our_modules), names)


def _module(theirs: str, ours: tuple[str, ...], names: Collection[str]) -> Iterator[WeightMapping]:
    is_norm = ours[0].endswith("norm")
    for kind, their_kind in (("weight", "gamma"), ("bias", "beta")) if is_norm else (("weight",) * 2, ("bias",) * 2):
        name = f"{theirs}/{their_kind}"
        if their_kind != "bias" or name in names:
            yield WeightMapping(name, tuple(f"{module}.{kind}" for module in ours))


def is_supported(name: str) -> bool:
    """Return whether the Transformer can have a variable, in any number of layers."""
    scope, _, kind = LAYER.sub("", name).rpartition("/")
    modules = SELF | CROSS | GATED if LAYER.match(name) else TOP
    return name in (*SOURCES, TARGET, OUTPUT, OUTPUT_BIAS, *POSITIONS.values()) or (
        scope in modules and kind in (("gamma", "beta") if "norm" in scope else ("weight", "bias"))
    )


def source_embedding(names: Collection[str]) -> str:
    return next((name for name in SOURCES if name in names), SOURCES[0])


def position_tables(state: StateDict, width: int) -> Tables:
    """Return the stored position tables, or those that CTranslate2 computes."""
    tables = {side: state[name] if name in state else computed_positions(width) for side, name in POSITIONS.items()}
    rows = min(MAX_POSITIONS, *(len(table) for table in tables.values()))
    for side, table in tables.items():
        if table.dim() != 2 or table.shape[1] != width or not rows or not torch.isfinite(table[:rows]).all():
            raise CheckpointError(
                f"{POSITIONS[side]} has shape {tuple(table.shape)}, expected (positions, {width}), or contains NaN"
            )
    return {side: table[:rows] for side, table in tables.items()}


def computed_positions(width: int) -> Tensor:
    """Compute the formula of tensor2tensor from position 1 on, with the float32 rounding of CTranslate2."""
    waves = width // 2
    step = np.log(np.float32(10000)) / np.float32(max(waves - 1, 1))
    frequencies = np.exp(-step * np.arange(waves, dtype=np.float32))
    angles = np.arange(1, MAX_POSITIONS + 1, dtype=np.float32)[:, None] * frequencies
    return torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))


def to_float32(variables: Variables) -> StateDict:
    """Convert every array except scalars; aliases of an array become one tensor."""
    tensors: dict[int, Tensor] = {}
    state: StateDict = {}
    for name, array in variables.items():
        if not array.ndim or name.endswith(SCALE):
            continue
        if id(array) not in tensors:
            with np.errstate(all="ignore"):  # infinite values are refused later, with the name of the tensor
                tensors[id(array)] = torch.from_numpy(_float32(name, array, variables.get(name + SCALE)))
        state[name] = tensors[id(array)]
    return state


def _float32(name: str, array: Array, scale: Array | None) -> Array:
    if array.dtype == np.int16:
        return array.astype(np.float32) * _inverse(name, INT16_SCALE if scale is None else scale, ())
    if array.dtype == np.int8 and name.endswith("weight"):
        return array.astype(np.float32) * _inverse(name, scale, array.shape[:1])[:, None]
    return np.array(array, np.float32 if array.dtype.kind == "f" else array.dtype)


def _inverse(name: str, scale: Array | np.float32 | None, shape: tuple[int, ...]) -> Array:
    """Return one over the scale, since CTranslate2 multiplies by it and a division would round differently."""
    if scale is None or scale.shape != shape or scale.dtype.kind != "f" or not np.all(scale):
        raise CheckpointError(f"{name} holds integers, but {name}{SCALE} is missing, of another shape or zero")
    return np.asarray(np.float32(1) / scale.astype(np.float32))
