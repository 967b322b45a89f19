"""Read the settings of OpenNMT-py and eole in one form, and find those that are not supported."""

from collections import ChainMap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seq2edge.config.architecture import Activation, Architecture, Norm
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.schema import SchemaError, read_strict
from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.opennmt.files import OUTPUT, OpenNmtFiles, Options, section
from seq2edge_export.loaders.opennmt.weights import LAYOUTS, MAX_POSITIONS
from seq2edge_export.loaders.state_dict import StateDict

GATED = "gated-"
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "silu": "silu",
    "gelu-tanh": "gelu_tanh",
    "quick_gelu": "gelu_sigmoid",
}
NORMS: dict[str, Norm] = {"standard": "layer", "standardFP32": "layer", "rms": "rms"}
HEADS = 8  # default of both
OPENNMT_EPSILON, EOLE_EPSILON = 1e-6, 1e-5
SILU = "silu"  # always gated in OpenNMT-py
RELATIVE = {-1: "rotary positions", -2: "ALiBi positions"}
SINUSOIDAL = ("SinusoidalInterleaved", "SinusoidalConcat")
SIDES = ("encoder", "decoder")
BEAMS, MAX_NEW_TOKENS = 5, 250  # defaults of both
SAME_IN_BOTH = {  # sides of eole, with its defaults
    "heads": HEADS,
    "heads_kv": None,
    "head_dim": None,
    "attn_scaling": None,
    "mlp_activation_fn": "relu",
    "layer_norm": "standard",
    "norm_eps": EOLE_EPSILON,
}


@dataclass(frozen=True, kw_only=True)
class OpenNmtSettings:
    """The settings of a model that its tensors do not show."""

    heads: int
    key_heads: int  # of keys and values, shared by several query heads
    head_width: int | None  # None: the width divided by the heads
    attention_scale: float | None
    activation: str  # eole's name, with the prefix GATED
    norm: str
    epsilon: float
    positions: bool  # position embeddings are added to token embeddings
    scaled_tokens: bool  # token embeddings are multiplied by the square root of the width
    scaled_positions: bool  # position embeddings too
    first_position: int  # row of the first token in the position table
    shared: bool  # source and target share an embedding
    tied: bool  # the output projection is the target embedding


@dataclass(frozen=True)
class Limit:
    """An option, its supported values, and a description of all others."""

    name: str
    supported: tuple[Any, ...]
    description: str


OPENNMT_LIMITS = (
    Limit("model_task", ("seq2seq",), "language models"),
    Limit("model_type", ("text",), "sources other than text"),
    Limit("encoder_type", ("transformer",), "encoders other than the Transformer's"),
    Limit("decoder_type", ("transformer",), "decoders other than the Transformer's"),
    Limit("self_attn_type", ("scaled-dot", "scaled-dot-flash"), "average attention"),
    Limit("relative_positions_buckets", (0,), "relative attention bias"),
    Limit("parallel_residual", (False,), "parallel residuals"),
    Limit("sliding_window", (0,), "attention within a window"),
    Limit("num_experts", (0, None), "experts"),
    Limit("copy_attn", (False,), "copy attention"),
    Limit("generator_function", ("softmax",), "outputs without a softmax"),
    Limit("n_src_feats", (0, None), "several source features"),
    Limit("quant_type", ("", None), "weights that are already quantized"),
)
OPENNMT_DEFAULTS = {"encoder_type": "rnn", "decoder_type": "rnn"}
EOLE_MODEL_LIMITS = (
    Limit("architecture", ("transformer", "custom", None), "models other than encoder-decoder Transformers"),
    Limit("generator_function", ("softmax",), "outputs without a softmax"),
    Limit("add_estimator", (False,), "an estimator of quality"),
    Limit("left_pad", (False,), "padding on the left"),
)
EOLE_EMBEDDING_LIMITS = (
    Limit("embedding_type", ("standard", None), "embeddings of RoBERTa"),
    Limit("position_encoding_type", (*SINUSOIDAL, "Learned", None), "positions that are not added to the embeddings"),
)
EOLE_SIDE_LIMITS = (
    Limit("encoder_type", ("transformer",), "encoders other than the Transformer's"),
    Limit("decoder_type", ("transformer",), "decoders other than the Transformer's"),
    Limit("encoder_layer_style", ("standard", None), "norms behind the sublayers of the encoder"),
    Limit("final_encoder_layer_norm", (True,), "an encoder without its last norm"),
    Limit("relative_positions_buckets", (0,), "relative attention bias"),
    Limit("parallel_residual", (False,), "parallel residuals"),
    Limit("ffn_layernorm", (False,), "norms before and behind each sublayer"),
    Limit("query_norm", (False,), "norms of queries and keys"),
    Limit("key_norm", (False,), "norms of queries and keys"),
    Limit("value_norm", (False,), "norms of values"),
    Limit("q_gating", (False,), "gated queries"),
    Limit("sliding_window", (0,), "attention within a window"),
    Limit("num_experts", (0,), "experts"),
    Limit("layer_types", (None,), "layers of different kinds"),
    Limit("num_mtp_heads", (0,), "prediction of several tokens"),
)
EOLE_TRAINING_LIMITS = (Limit("quant_type", ("", None), "weights that are already quantized"),)
EOLE_SEARCH_LIMITS = (
    Limit("length_penalty", ("avg", "none"), "the length penalty of GNMT"),
    Limit("coverage_penalty", ("none",), "a coverage penalty"),
    Limit("ratio", (0, None), "a ratio that ends the search"),
    Limit("top_k", (0, 1), "samples instead of a search"),
    Limit("top_p", (0, 1), "samples instead of a search"),
    Limit("replace_unk", (False,), "words of the source in the place of unknown ones"),
)


def read_settings(files: OpenNmtFiles) -> OpenNmtSettings:
    """Read the settings, with the defaults of the framework."""
    return _eole_settings(files.options) if files.framework == "eole" else _opennmt_settings(files.options)


def unsupported(files: OpenNmtFiles, settings: OpenNmtSettings) -> list[str]:
    """List the features that are not supported."""
    is_eole = files.framework == "eole"
    problems = _unsupported_eole(files.options) if is_eole else _unsupported_opennmt(files.options)
    if settings.activation.removeprefix(GATED) not in ACTIVATIONS:
        problems.append(f"the activation {settings.activation}")
    if settings.norm not in NORMS:
        problems.append(f"norms of the kind {settings.norm}")
    return problems + _exceeded(search_options(files), EOLE_SEARCH_LIMITS, {})


def search_options(files: OpenNmtFiles) -> Options:
    """Return eole's search options; OpenNMT-py stores none."""
    return section(files.options, "inference") if files.framework == "eole" else {}


def _opennmt_settings(options: Options) -> OpenNmtSettings:
    heads = options.get("heads", HEADS)
    activation = options.get("pos_ffn_activation_fn", "relu")
    return OpenNmtSettings(
        heads=heads,
        key_heads=options.get("num_kv") or (1 if options.get("multiquery") else heads),
        head_width=None,
        attention_scale=None,
        activation=GATED + SILU if activation == SILU else str(activation),
        norm=str(options.get("layer_norm", "standard")),
        epsilon=options.get("norm_eps", OPENNMT_EPSILON),
        positions=options.get("position_encoding") is True,
        scaled_tokens=options.get("position_encoding") is True,
        scaled_positions=False,
        first_position=0,
        shared=options.get("share_embeddings") is True,
        tied=options.get("share_decoder_embeddings") is True,
    )


def _eole_settings(options: Options) -> OpenNmtSettings:
    model = section(options, "model")
    embeddings, decoder = _part(model, "embeddings"), _part(model, "decoder")
    heads = decoder.get("heads", SAME_IN_BOTH["heads"])
    scaling, normalize = decoder.get("attn_scaling"), embeddings.get("normalize") is True
    positions = embeddings.get("position_encoding_type", SINUSOIDAL[0])
    return OpenNmtSettings(
        heads=heads,
        key_heads=decoder.get("heads_kv") or heads,
        head_width=decoder.get("head_dim"),
        attention_scale=scaling**-0.5 if isinstance(scaling, int | float) and scaling > 0 else scaling,
        activation=str(decoder.get("mlp_activation_fn", SAME_IN_BOTH["mlp_activation_fn"])),
        norm=str(decoder.get("layer_norm", SAME_IN_BOTH["layer_norm"])),
        epsilon=decoder.get("norm_eps", EOLE_EPSILON),
        positions=positions is not None,
        scaled_tokens=positions in SINUSOIDAL or normalize,
        scaled_positions=normalize,
        first_position=embeddings.get("position_shift") or 0,
        shared=model.get("share_embeddings") is True,
        tied=model.get("share_decoder_embeddings") is True,
    )


def _unsupported_opennmt(options: Options) -> list[str]:
    problems = _exceeded(options, OPENNMT_LIMITS, OPENNMT_DEFAULTS)
    if distance := options.get("max_relative_positions", 0):
        kind = next((text for number, text in RELATIVE.items() if distance == number), "relative positions")
        problems.append(f"{kind} (max_relative_positions = {distance!r})")
    return problems


def _unsupported_eole(options: Options) -> list[str]:
    model = section(options, "model")
    problems = _exceeded(model, EOLE_MODEL_LIMITS, {})
    problems += _exceeded(_part(model, "embeddings"), EOLE_EMBEDDING_LIMITS, {})
    for side in SIDES:
        problems += _exceeded(_part(model, side), EOLE_SIDE_LIMITS, {})
    for name, default in SAME_IN_BOTH.items():
        encoder, decoder = (_part(model, side).get(name, default) for side in SIDES)
        if encoder != decoder:
            problems.append(f"encoder and decoder with different {name} ({encoder!r} and {decoder!r})")
    problems += _exceeded(section(options, "training"), EOLE_TRAINING_LIMITS, {})
    return list(dict.fromkeys(problems))


def _part(model: Options, part: str) -> Options:
    """Return the settings of a part of the model, with those of the whole model as defaults."""
    return ChainMap(section(model, part), dict(model))


def _exceeded(options: Options, limits: Iterable[Limit], defaults: Options) -> list[str]:
    problems = []
    for limit in limits:
        value = options.get(limit.name, defaults.get(limit.name, limit.supported[0]))
        if value not in limit.supported:
            problems.append(f"{limit.description} ({limit.name} = {value!r})")
    return problems


def _check_numbers(settings: OpenNmtSettings, where: str) -> None:
    counts = {"heads": settings.heads, "heads of keys and values": settings.key_heads}
    sizes = {"norm_eps": settings.epsilon}
    if settings.head_width is not None:
        counts["head_dim"] = settings.head_width
    if settings.attention_scale is not None:
        sizes["attn_scaling"] = settings.attention_scale
    invalid = [f"{name} = {value!r}" for name, value in counts.items() if type(value) is not int or value < 1]
    invalid += [
        f"{name} = {value!r}" for name, value in sizes.items() if type(value) not in (int, float) or not value > 0
    ]
    if type(settings.first_position) is not int or settings.first_position < 0:
        invalid.append(f"position_shift = {settings.first_position!r}")
    if invalid:
        raise CheckpointError(f"{where} has invalid settings: {'; '.join(invalid)}")


def architecture_of(files: OpenNmtFiles, settings: OpenNmtSettings) -> Architecture:
    """Return the architecture that tensors and settings describe, without positions."""
    _check_numbers(settings, str(files.path))
    layout, state = LAYOUTS[files.framework], files.state
    inner = f"{layout.encoder}0.{layout.feed_forward[0]}.weight"
    target, output = _shared_tables(files, settings)
    _check_tables(files, layout.source, target, output, inner)
    feed_forward, width = state[inner].shape
    try:
        return Architecture(
            source_vocabulary=len(state[layout.source]),
            target_vocabulary=len(state[target]),
            width=width,
            heads=settings.heads,
            encoder_layers=_count_layers(state, layout.encoder),
            decoder_layers=_count_layers(state, layout.decoder),
            feed_forward=feed_forward,
            attention_width=None if settings.head_width is None else settings.head_width * settings.heads,
            attention_scale=settings.attention_scale,
            activation=ACTIVATIONS[settings.activation.removeprefix(GATED)],
            gated=settings.activation.startswith(GATED),
            bias=any(_is_linear_bias(name) for name in state),
            norm=NORMS[settings.norm],
            positions="none",
            max_positions=MAX_POSITIONS,
            joint_vocabulary=_same(state[layout.source], state[target]),
            tied_output=_same(state[target], state[output]),
            output_bias=f"{OUTPUT}.bias" in state,
            embedding_scale=None if settings.scaled_tokens else 1.0,
            norm_epsilon=settings.epsilon,
        )
    except ValueError as error:
        raise CheckpointError(f"the tensors and settings in {files.path} contradict each other: {error}") from None


def _shared_tables(files: OpenNmtFiles, settings: OpenNmtSettings) -> tuple[str, str]:
    """Return the names of the target embedding and output projection; eole stores a shared tensor once."""
    layout, state = LAYOUTS[files.framework], files.state
    target = layout.source if settings.shared and layout.target not in state else layout.target
    output = f"{OUTPUT}.weight"
    return target, target if settings.tied and output not in state else output


def _check_tables(files: OpenNmtFiles, *names: str) -> None:
    """Check the tensors that the architecture is derived from."""
    state = files.state
    missing = [name for name in names if name not in state or state[name].dim() != 2 or not state[name].numel()]
    if missing:
        raise CheckpointError(f"{files.path} has no matrix named {' nor '.join(missing)}, which a Transformer needs")


def _count_layers(state: StateDict, prefix: str) -> int:
    count = 0
    while any(name.startswith(f"{prefix}{count}.") for name in state):
        count += 1
    return count


def _is_linear_bias(name: str) -> bool:
    return name.endswith(".bias") and "norm" not in name and not name.startswith(OUTPUT)


def _same(first: Tensor, second: Tensor) -> bool:
    return first is second or torch.equal(first, second)


def read_generation(
    files: OpenNmtFiles, tokens: SpecialTokens, target: Sequence[str], architecture: Architecture
) -> GenerationOptions:
    """Return the search options; ``target`` is the target vocabulary."""
    search = search_options(files)
    options: dict[str, Any] = {
        "decoder_start_token_id": tokens.bos,
        "eos_token_id": [tokens.eos, *_additional_eos(search, target)],
        "pad_token_id": tokens.pad,
        "num_beams": search.get("beam_size", BEAMS),
        "max_new_tokens": search.get("max_length", MAX_NEW_TOKENS),
        "min_new_tokens": search.get("min_length", 0),
        "length_penalty": search.get("alpha", 1.0) if search.get("length_penalty", "avg") == "avg" else 0.0,
        "no_repeat_ngram_size": search.get("block_ngram_repeat", 0),
        "suppress_tokens": [tokens.unk] if search.get("ban_unk_token") else None,
    }
    if isinstance(options["max_new_tokens"], int):
        options["max_new_tokens"] = min(options["max_new_tokens"], architecture.max_positions)
    try:
        return read_strict(GenerationOptions, options, where="the inference settings")
    except SchemaError as error:
        raise CheckpointError(f"{files.path} is not as eole writes it: {error}") from None


def _additional_eos(search: Options, target: Sequence[str]) -> list[int]:
    names = search.get("optional_eos")
    tokens = {str(token) for token in names} if isinstance(names, list) else set()
    return [number for number, token in enumerate(target) if token in tokens]
