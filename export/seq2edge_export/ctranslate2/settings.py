"""What CTranslate2's Transformer does besides its weights, and what of it ours cannot do; needs numpy."""

import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from seq2edge.architecture import Activation
from seq2edge.errors import CheckpointError
from seq2edge_export.ctranslate2.binary import HEADS, SCALE, Array, Binary, Variables
from seq2edge_export.ctranslate2.places import EMBEDDING_NORM, FINAL_NORM, LAYER, TARGET, has_place

ACTIVATIONS: tuple[Activation, ...] = ("relu", "gelu_tanh", "silu", "gelu", "gelu_sigmoid")
OTHER_ACTIVATIONS = {5: "tanh", 6: "sigmoid"}
# Numbers that say nothing about what is computed, or that are looked at below.
KNOWN = {
    *("num_heads", "pre_norm", "activation", "embeddings_merge", "alignment_layer", "alignment_heads"),
    *("scale_embeddings", "embeddings/multiply_by_sqrt_depth", "embeddings_0/multiply_by_sqrt_depth"),
    *("start_from_zero_embedding", "alibi", "alibi_use_positive_positions", "scale_alibi", "multi_query_attention"),
    *("with_source_bos", "with_source_eos", "with_target_bos", "user_decoder_start_tokens"),
    *("unk_token", "bos_token", "eos_token"),
}
# How the name of a part begins -> what it is, for people.
WORDS = {
    "rotary_": "rotary positions",
    "max_position_embeddings": "rotary positions",
    "original_max_position_embeddings": "rotary positions",
    "relative_attention": "relative attention bias",
    "relative_": "relative positions",
    "num_heads_kv": "fewer heads for keys and values",
    "multi_query": "multi-query attention",
    "head_dim": "heads of a width of their own",
    "queries_scale": "a scale of its own for queries",
    "sliding_window": "attention within a window",
    "q_norm": "norms of queries and keys",
    "k_norm": "norms of queries and keys",
    "v_norm": "norms of values",
    "merged_encoder_attention": "self and cross attention in one",
    "memory_kv": "self and cross attention in one",
    "shared_layer_norm": "parallel residuals",
    "input_layer_norm": "norms before and behind each sublayer",
    "post_attention_layer_norm": "norms before and behind each sublayer",
    "pre_feedforward_layer_norm": "norms before and behind each sublayer",
    "post_feedforward_layer_norm": "norms before and behind each sublayer",
    "external_": "norms before and behind each sublayer",
    "layer_scalar": "scaled layers",
    "project_": "projections around the decoder",
    "scale_outputs": "scaled outputs",
    "final_logit_softcapping": "soft limits of the logits",
    "weight_zero": "weights with zero points (AWQ)",
}


@dataclass(frozen=True)
class Stack:
    """The settings of an encoder or a decoder."""

    heads: int
    pre_norm: bool
    activation: int
    embedding_scale: float | None  # None: the root of the width
    final_norm: bool
    embedding_norm: bool
    gated: bool


def stack_of(side: str, binary: Binary) -> Stack:
    """The settings of one side, with CTranslate2's defaults; old models have one setting for both."""
    names = binary.variables.keys()
    return Stack(
        heads=int(_number(binary, side, "num_heads", HEADS[binary.spec])),
        pre_norm=bool(_number(binary, side, "pre_norm", 1)),
        activation=int(_number(binary, side, "activation", 0)),
        embedding_scale=_embedding_scale(side, binary.variables),
        final_norm=f"{side}/{FINAL_NORM}/gamma" in names,
        embedding_norm=f"{side}/{EMBEDDING_NORM}/gamma" in names,
        gated=f"{side}/layer_0/ffn/linear_0_noact/weight" in names,
    )


def starts_from_zero(binary: Binary) -> bool:
    return bool(_number(binary, "decoder", "start_from_zero_embedding", 0))


def unsupported(binary: Binary, encoder: Stack, decoder: Stack) -> list[str]:
    """Everything that our Transformer has not, each once."""
    found = [*_differences(encoder, decoder), *_by_value(binary, encoder)]
    for name in binary.variables:
        if not has_place(name.removesuffix(SCALE)) and name.split("/", 1)[-1] not in KNOWN:
            found.append(_described(name))
        if name.endswith("/gamma") and name.removesuffix("gamma") + "beta" not in binary.variables:
            found.append("RMS norms")
    return list(dict.fromkeys(found))


def _differences(encoder: Stack, decoder: Stack) -> Iterator[str]:
    theirs = asdict(decoder)
    for name, value in asdict(encoder).items():
        if value != theirs[name]:
            yield f"encoder and decoder with different {name} ({value} and {theirs[name]})"


def _by_value(binary: Binary, encoder: Stack) -> Iterator[str]:
    if encoder.activation not in range(len(ACTIVATIONS)):
        yield f"the activation {OTHER_ACTIVATIONS.get(encoder.activation, encoder.activation)}"
    for side in ("encoder", "decoder"):
        if _number(binary, side, "alibi", 0):
            yield "ALiBi positions"
        if _number(binary, side, "multi_query_attention", 0):
            yield WORDS["multi_query"]


def _described(name: str) -> str:
    parts = LAYER.sub("", name).split("/")
    words = (words for begin, words in WORDS.items() for part in parts if part.startswith(begin))
    if any(re.fullmatch(r"embeddings_[1-9]\d*", part) for part in parts):
        return "several source features"
    return next(words, re.sub(r"layer_\d+", "layer_N", name))


def _number(binary: Binary, side: str, name: str, default: float) -> float:
    variables = binary.variables
    found = next((key for key in (f"{side}/{name}", name) if key in variables), None)
    return default if found is None else _single(found, variables[found])


def _single(name: str, value: Array) -> float:
    if value.ndim or not np.isfinite(value):
        raise CheckpointError(f"{name} in model.bin should be a number, but has the shape {value.shape} or is none")
    return float(value)


def _embedding_scale(side: str, variables: Variables) -> float | None:
    """A flag says whether there is one, the root of the width; another number is the scale itself."""
    names = [f"{side}/{name}" for name in ("scale_embeddings", "embeddings/multiply_by_sqrt_depth")]
    found = next((name for name in names if name in variables), None)
    scale = 1.0 if found is None else _single(found, variables[found])
    if found is None or variables[found].dtype == np.int8:
        return None if scale else 1.0
    root = math.sqrt(variables[TARGET].shape[-1]) if TARGET in variables else 0.0
    return None if math.isclose(scale, root, rel_tol=1e-6) else scale
