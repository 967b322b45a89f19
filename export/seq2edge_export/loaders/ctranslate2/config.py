"""Read the settings of a CTranslate2 model and find those that are not supported."""

import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from seq2edge.config.architecture import Activation, Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.schema import short_repr
from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.ctranslate2.files import HEADS, SCALE, Array, Binary, Variables
from seq2edge_export.loaders.ctranslate2.weights import (
    EMBEDDING_NORM,
    FINAL_NORM,
    LAYER,
    MAX_POSITIONS,
    OUTPUT,
    OUTPUT_BIAS,
    TARGET,
    is_supported,
    source_embedding,
)
from seq2edge_export.loaders.state_dict import StateDict, read_object

CONFIG = "config.json"
EPSILON = 1e-5  # default of layer_norm_epsilon
BEAMS = 4  # as in Argos Translate
MIN_NEW_TOKENS, MAX_NEW_TOKENS = 1, 256  # as in CTranslate2
PADDING = ("<pad>", "<blank>")
INNER = "encoder/layer_0/ffn/linear_0/weight"
ACTIVATIONS: tuple[Activation, ...] = ("relu", "gelu_tanh", "silu", "gelu", "gelu_sigmoid")
OTHER_ACTIVATIONS = {5: "tanh", 6: "sigmoid"}
# Variables that do not change what is computed, or that are checked below.
KNOWN = {
    *("num_heads", "pre_norm", "activation", "embeddings_merge", "alignment_layer", "alignment_heads"),
    *("scale_embeddings", "embeddings/multiply_by_sqrt_depth", "embeddings_0/multiply_by_sqrt_depth"),
    *("start_from_zero_embedding", "alibi", "alibi_use_positive_positions", "scale_alibi", "multi_query_attention"),
    *("with_source_bos", "with_source_eos", "with_target_bos", "user_decoder_start_tokens"),
    *("unk_token", "bos_token", "eos_token"),
}
# prefix of a part of a variable's name -> description of the unsupported feature
UNSUPPORTED = {
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
class TokenSettings:
    """The settings of ``config.json``, or of the variables of an old model."""

    unk: str
    bos: str | None
    eos: str
    start: str | None  # None: chosen for every call
    source_bos: bool
    source_eos: bool
    epsilon: float


@dataclass(frozen=True)
class Stack:
    """The settings of an encoder or a decoder."""

    heads: int
    pre_norm: bool
    activation: int
    embedding_scale: float | None  # None: the square root of the width
    final_norm: bool
    embedding_norm: bool
    gated: bool


def read_settings(folder: Path, binary: Binary) -> TokenSettings:
    """Read ``config.json``, or the variables that held its settings before binary version 6."""
    if binary.version < 6:
        return _old_settings(binary.variables)
    content = read_object(folder / CONFIG)
    epsilon = content.get("layer_norm_epsilon")
    settings = TokenSettings(
        unk=content.get("unk_token", "<unk>"),
        bos=content.get("bos_token", "<s>"),
        eos=content.get("eos_token", "</s>"),
        start=content.get("decoder_start_token", "<s>"),
        source_bos=content.get("add_source_bos", False),
        source_eos=content.get("add_source_eos", False),
        epsilon=EPSILON if epsilon is None else epsilon,
    )
    _check(settings, folder / CONFIG)
    return _with_source_eos(settings)


def stack_of(side: str, binary: Binary) -> Stack:
    """Return the settings of the encoder or decoder, with CTranslate2's defaults."""
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


def unsupported(binary: Binary, encoder: Stack, decoder: Stack) -> list[str]:
    """List the features that are not supported."""
    problems = [*_differences(encoder, decoder), *_unsupported_values(binary, encoder)]
    for name in binary.variables:
        if not is_supported(name.removesuffix(SCALE)) and name.split("/", 1)[-1] not in KNOWN:
            problems.append(_describe(name))
        if name.endswith("/gamma") and name.removesuffix("gamma") + "beta" not in binary.variables:
            problems.append("RMS norms")
    return list(dict.fromkeys(problems))


def _differences(encoder: Stack, decoder: Stack) -> Iterator[str]:
    theirs = asdict(decoder)
    for name, value in asdict(encoder).items():
        if value != theirs[name]:
            yield f"encoder and decoder with different {name} ({value} and {theirs[name]})"


def _unsupported_values(binary: Binary, encoder: Stack) -> Iterator[str]:
    if encoder.activation not in range(len(ACTIVATIONS)):
        yield f"the activation {OTHER_ACTIVATIONS.get(encoder.activation, encoder.activation)}"
    for side in ("encoder", "decoder"):
        if _number(binary, side, "alibi", 0):
            yield "ALiBi positions"
        if _number(binary, side, "multi_query_attention", 0):
            yield UNSUPPORTED["multi_query"]


def _describe(name: str) -> str:
    parts = LAYER.sub("", name).split("/")
    if any(re.fullmatch(r"embeddings_[1-9]\d*", part) for part in parts):
        return "several source features"
    matches = (text for prefix, text in UNSUPPORTED.items() for part in parts if part.startswith(prefix))
    return next(matches, re.sub(r"layer_\d+", "layer_N", name))


def _number(binary: Binary, side: str, name: str, default: float) -> float:
    """Return a setting of one side; old models have one setting for both."""
    variables = binary.variables
    key = next((key for key in (f"{side}/{name}", name) if key in variables), None)
    return default if key is None else _scalar(key, variables[key])


def _scalar(name: str, value: Array) -> float:
    if value.ndim or not np.isfinite(value):
        raise CheckpointError(f"{name} in model.bin has shape {value.shape} or is not finite, expected a number")
    return float(value)


def _embedding_scale(side: str, variables: Variables) -> float | None:
    """Read the scale: an int8 flag switches the square root of the width on, another number is the scale itself."""
    names = [f"{side}/{name}" for name in ("scale_embeddings", "embeddings/multiply_by_sqrt_depth")]
    key = next((name for name in names if name in variables), None)
    scale = 1.0 if key is None else _scalar(key, variables[key])
    if key is None or variables[key].dtype == np.int8:
        return None if scale else 1.0
    root = math.sqrt(variables[TARGET].shape[-1]) if TARGET in variables else 0.0
    return None if math.isclose(scale, root, rel_tol=1e-6) else scale


def architecture_of(binary: Binary, state: StateDict, stack: Stack, epsilon: float) -> Architecture:
    """Return the architecture that tensors and settings describe, without positions."""
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
            max_positions=MAX_POSITIONS,
            joint_vocabulary=_same(state, source, TARGET),
            tied_output=_same(state, TARGET, OUTPUT),
            output_bias=OUTPUT_BIAS in state,
            embedding_scale=stack.embedding_scale,
            embedding_norm=stack.embedding_norm,
            zero_start=bool(_number(binary, "decoder", "start_from_zero_embedding", 0)),
            norm_epsilon=epsilon,
        )
    except ValueError as error:
        raise CheckpointError(f"the variables in model.bin contradict each other: {error}") from None


def _count_layers(state: StateDict, side: str) -> int:
    count = 0
    while any(name.startswith(f"{side}/layer_{count}/") for name in state):
        count += 1
    return count


def _same(state: StateDict, first: str, second: str) -> bool:
    return state[first] is state[second] or torch.equal(state[first], state[second])


def _check_tables(state: StateDict, *names: str) -> None:
    """Check the tensors that the architecture is derived from."""
    missing = [name for name in names if name not in state or state[name].dim() != 2 or not state[name].numel()]
    if missing:
        raise CheckpointError(f"model.bin has no matrix named {' nor '.join(missing)}, which a Transformer needs")


def read_generation(tokens: SpecialTokens, architecture: Architecture) -> GenerationOptions:
    """Return the search options of Argos Translate, since a model has none."""
    return GenerationOptions(
        decoder_start_token_id=tokens.bos,
        eos_token_id=tokens.eos,
        pad_token_id=tokens.pad,
        num_beams=BEAMS,
        min_new_tokens=MIN_NEW_TOKENS,
        max_new_tokens=min(MAX_NEW_TOKENS, architecture.max_positions),
    )


def _check(settings: TokenSettings, path: Path) -> None:
    tokens = (settings.unk, settings.eos, settings.bos or "", settings.start or "")
    flags, epsilon = (settings.source_bos, settings.source_eos), settings.epsilon
    if not all(isinstance(token, str) for token in tokens) or not all(isinstance(flag, bool) for flag in flags):
        raise CheckpointError(
            f"{path} is not as CTranslate2 writes it: tokens should be strings, add_source_* true or false"
        )
    if type(epsilon) not in (int, float) or not math.isfinite(epsilon):
        raise CheckpointError(f"{path} has the layer_norm_epsilon {short_repr(epsilon)}, which is not a number")


def _with_source_eos(settings: TokenSettings) -> TokenSettings:
    """Add the end token to sources where CTranslate2 leaves it to the tokenizer.

    These are models from Hugging Face, whose decoder starts with the end or padding token. OpenNMT models start with
    ``<s>`` and have no end token in the source.
    """
    from_hugging_face = settings.start in (settings.eos, *PADDING)
    return replace(settings, source_eos=settings.source_eos or from_hugging_face)


def _old_settings(variables: Variables) -> TokenSettings:
    """Read the settings of binary versions before 6, which are variables."""

    def text(name: str, default: str) -> str:
        return variables[name].tobytes().decode(errors="replace") if name in variables else default

    def flag(name: str, default: bool) -> bool:
        return bool(variables[name].any()) if name in variables else default

    bos, eos = text("bos_token", "<s>"), text("eos_token", "</s>")
    start = None if flag("user_decoder_start_tokens", False) else bos if flag("with_target_bos", True) else eos
    return TokenSettings(
        unk=text("unk_token", "<unk>"),
        bos=bos,
        eos=eos,
        start=start,
        source_bos=flag("with_source_bos", False),
        source_eos=flag("with_source_eos", False),
        epsilon=EPSILON,
    )
