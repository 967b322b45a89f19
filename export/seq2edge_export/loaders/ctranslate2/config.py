"""What CTranslate2's Transformer does besides its weights, and what of it ours cannot do.

The shape of the model that CTranslate2's variables are.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from seq2edge.config.architecture import Activation, Architecture, Positions
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.ctranslate2.files import HEADS, SCALE, Array, Binary, Variables
from seq2edge_export.loaders.ctranslate2.weights import (
    EMBEDDING_NORM,
    FINAL_NORM,
    LAYER,
    OUTPUT,
    OUTPUT_BIAS,
    POSITIONS,
    TARGET,
    has_place,
    source_embedding,
)
from seq2edge_export.loaders.recipe.config import is_sinusoidal
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.model.transformer import Transformer

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


LONGEST = 1024  # CTranslate2 cuts longer sources; tables may have more rows
INNER = "encoder/layer_0/ffn/linear_0/weight"
FORMULAS: tuple[Positions, ...] = ("sinusoidal_halves", "sinusoidal")


def shape_of(binary: Binary, state: StateDict, stack: Stack, epsilon: float) -> Architecture:
    """What tensors and settings say together, but for the positions."""
    source = source_embedding(state)
    _check_tables(state, source, TARGET, OUTPUT, INNER)
    feed_forward, width = state[INNER].shape
    try:
        return Architecture(
            source_vocabulary=len(state[source]),
            target_vocabulary=len(state[TARGET]),
            width=width,
            heads=stack.heads,
            encoder_layers=_count_layers(state, "encoder"),
            decoder_layers=_count_layers(state, "decoder"),
            feed_forward=feed_forward,
            activation=ACTIVATIONS[stack.activation],
            gated=stack.gated,
            norm_first=stack.pre_norm,
            final_norm=stack.final_norm,
            positions="none",
            max_positions=LONGEST,
            joint_vocabulary=_same(state, source, TARGET),
            tied_output=_same(state, TARGET, OUTPUT),
            output_bias=OUTPUT_BIAS in state,
            embedding_scale=stack.embedding_scale,
            embedding_norm=stack.embedding_norm,
            zero_start=starts_from_zero(binary),
            norm_epsilon=epsilon,
        )
    except ValueError as error:
        raise CheckpointError(f"the variables in model.bin do not fit together: {error}") from None


def with_positions(shape: Architecture, state: StateDict) -> Architecture:
    """The same with the positions that the tables are: those of a formula, if there is one."""
    tables = position_tables(state, shape.width)
    shape = replace(shape, positions="learned", max_positions=len(tables[0]))
    for kind in FORMULAS if shape.width % 2 == 0 else ():
        like = replace(shape, positions=kind)
        if all(is_sinusoidal(table, like) for table in tables):
            return like
    return shape


def position_tables(state: StateDict, width: int) -> tuple[Tensor, Tensor]:
    """The rows of source and target that can be used: stored ones, or those that CTranslate2 computes."""
    stored = [state[name] if name in state else computed_positions(width) for name in POSITIONS.values()]
    rows = min(LONGEST, *(len(table) for table in stored))
    for name, table in zip(POSITIONS.values(), stored, strict=True):
        if table.dim() != 2 or table.shape[1] != width or not rows or not torch.isfinite(table[:rows]).all():
            raise CheckpointError(
                f"{name} has the shape {tuple(table.shape)} instead of (positions, {width}), or no numbers"
            )
    source, target = (table[:rows] for table in stored)
    return source, target


def fill_positions(model: Transformer, state: StateDict) -> None:
    """Take the tables as they are, computed ones too, so that not even their rounding differs."""
    embeddings = (model.source_embedding, model.target_embedding)
    for embedding, table in zip(embeddings, position_tables(state, model.shape.width), strict=True):
        assert embedding.positions is not None
        with torch.no_grad():
            embedding.positions.copy_(table)


def computed_positions(width: int) -> Tensor:
    """CTranslate2's table for models that bring none: tensor2tensor's formula from position 1, in float32."""
    waves = width // 2
    step = np.log(np.float32(10000)) / np.float32(max(waves - 1, 1))
    lengths = np.exp(-step * np.arange(waves, dtype=np.float32))
    angles = np.arange(1, LONGEST + 1, dtype=np.float32)[:, None] * lengths
    return torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))


def _count_layers(state: StateDict, side: str) -> int:
    count = 0
    while any(name.startswith(f"{side}/layer_{count}/") for name in state):
        count += 1
    return count


def _same(state: StateDict, first: str, second: str) -> bool:
    return state[first] is state[second] or torch.equal(state[first], state[second])


def _check_tables(state: StateDict, *names: str) -> None:
    """Without these, nothing can be said of the others."""
    wrong = [name for name in names if name not in state or state[name].dim() != 2 or not state[name].numel()]
    if wrong:
        raise CheckpointError(f"model.bin has no table named {' nor '.join(wrong)}, which a Transformer needs")
