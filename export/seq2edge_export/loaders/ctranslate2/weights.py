"""CTranslate2's arrays as float32 tensors, with the numbers that its own float32 run would have.

Where each variable of CTranslate2's Transformer goes in ours.
"""

import re
from collections.abc import Collection, Iterator

import numpy as np
import torch
from torch import Tensor

from seq2edge.config.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.ctranslate2.files import SCALE, Array, Variables
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.loaders.weight_map import WeightMapping

INT16_SCALE = np.float32(1000)  # of int16 weights that were saved without one


def widen(variables: Variables) -> StateDict:
    """Every array that is more than a single number, by its name; two names of one array stay one tensor."""
    made: dict[int, Tensor] = {}
    state: StateDict = {}
    for name, array in variables.items():
        if not array.ndim or name.endswith(SCALE):
            continue
        if id(array) not in made:
            with np.errstate(all="ignore"):  # what is then infinite is refused with its name
                made[id(array)] = torch.from_numpy(_float32(name, array, variables.get(name + SCALE)))
        state[name] = made[id(array)]
    return state


def _float32(name: str, array: Array, scale: Array | None) -> Array:
    if array.dtype == np.int16:
        return array.astype(np.float32) * _inverse(name, INT16_SCALE if scale is None else scale, ())
    if array.dtype == np.int8 and name.endswith("weight"):
        return array.astype(np.float32) * _inverse(name, scale, array.shape[:1])[:, None]
    return np.array(array, np.float32 if array.dtype.kind == "f" else array.dtype)


def _inverse(name: str, scale: Array | np.float32 | None, shape: tuple[int, ...]) -> Array:
    """One over the scale in float32: what CTranslate2 multiplies by, where dividing would round otherwise."""
    if scale is None or scale.shape != shape or scale.dtype.kind != "f" or not np.all(scale):
        raise CheckpointError(f"{name} holds integers, but {name}{SCALE} is missing or of another shape, or has a zero")
    return np.asarray(np.float32(1) / scale.astype(np.float32))


SOURCES = ("encoder/embeddings_0/weight", "encoder/embeddings/weight")  # the second in old models
TARGET = "decoder/embeddings/weight"
OUTPUT, OUTPUT_BIAS = "decoder/projection/weight", "decoder/projection/bias"
POSITIONS = {side: f"{side}/position_encodings/encodings" for side in ("encoder", "decoder")}

# linear layer or norm of theirs -> modules of ours, within a layer
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


def has_place(name: str) -> bool:
    """Whether a variable is one that a Transformer like ours can have, in any number of layers."""
    scope, _, kind = LAYER.sub("", name).rpartition("/")
    modules = SELF | CROSS | GATED if LAYER.match(name) else TOP
    return name in (*SOURCES, TARGET, OUTPUT, OUTPUT_BIAS, *POSITIONS.values()) or (
        scope in modules and kind in (("gamma", "beta") if "norm" in scope else ("weight", "bias"))
    )


def source_embedding(names: Collection[str]) -> str:
    return next((name for name in SOURCES if name in names), SOURCES[0])


def weight_map(shape: Architecture, names: Collection[str]) -> list[WeightMapping]:
    """A place for every parameter of ours but the positions; linear layers may be without bias."""
    found = [
        WeightMapping(source_embedding(names), ("source_embedding.tokens.weight",)),
        WeightMapping(TARGET, ("target_embedding.tokens.weight",)),
        WeightMapping(OUTPUT, ("output.weight",)),
    ]
    if shape.output_bias:
        found.append(WeightMapping(OUTPUT_BIAS, ("output.bias",)))
    feed_forward = GATED if shape.gated else FEED_FORWARD
    for layer in range(shape.encoder_layers):
        found += _modules(f"encoder/layer_{layer}", f"encoder.{layer}", SELF | feed_forward, names)
    for layer in range(shape.decoder_layers):
        found += _modules(f"decoder/layer_{layer}", f"decoder.{layer}", SELF | CROSS | feed_forward, names)
    for side, embedding in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        if shape.final_norm:
            found += _module(f"{side}/{FINAL_NORM}", (f"{side}_norm",), names)
        if shape.embedding_norm:
            found += _module(f"{side}/{EMBEDDING_NORM}", (f"{embedding}.norm",), names)
    return found


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
