"""The shape that a T5's config.json and tensors describe; needs torch."""

from typing import Any

import torch

from seq2edge.architecture import Architecture
from seq2edge_export.hugging_face.config import ACTIVATIONS, quantized
from seq2edge_export.hugging_face.folder import Settings
from seq2edge_export.state_dict import Tensors

DEFAULTS: Settings = {
    "d_model": 512,
    "d_kv": 64,
    "num_decoder_layers": None,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "relu",
    "pad_token_id": 0,
    "eos_token_id": 1,
}
BY_TYPE: dict[str, Settings] = {
    "t5": {"vocab_size": 32128, "d_ff": 2048, "num_layers": 6, "num_heads": 8},
    "mt5": {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu"},
}
LONGEST = 512  # relative positions have no end, but T5 was trained on sentences up to this length
SHARED, SOURCE, TARGET = "shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
MARKS = ("pad_token_id", "decoder_start_token_id")


def with_defaults(config: Settings) -> Settings:
    """The settings of a T5 or mT5, with what transformers takes where one is left out; outputs begin with padding."""
    given = {name: value for name, value in config.items() if value is not None or not name.endswith("_token_id")}
    full = DEFAULTS | BY_TYPE[config["model_type"]] | given
    return {"decoder_start_token_id": full["pad_token_id"]} | full


def setting_problems(config: Settings) -> list[str]:
    """What cannot be done, whatever the tensors are."""
    problems = quantized(config)
    if not config.get("is_encoder_decoder", True):
        problems.append("it is an encoder alone or a decoder alone (is_encoder_decoder is false)")
    problems += [f"{name} is {config[name]!r}, which is no id" for name in MARKS if type(config[name]) is not int]
    if _activation(config)[1] not in ACTIVATIONS:
        problems.append(f"the activation is {_activation(config)[1]!r}; known are {', '.join(ACTIVATIONS)}")
    return problems


def end_of(config: Settings) -> Any:
    """The end mark; of several, the first, which the tokenizer writes."""
    found = config["eos_token_id"]
    return found[0] if isinstance(found, list) and found else found


def tables(state: Tensors) -> dict[str, str]:
    """Which tensor is the source embedding, the target embedding and the output projection."""
    shared = next((name for name in (SHARED, SOURCE, TARGET, OUTPUT) if name in state), SHARED)
    names = {"source": SOURCE, "target": TARGET, "output": OUTPUT}
    return {use: name if name in state else shared for use, name in names.items()}


def shape_of(config: Settings, state: Tensors, *, longest: int) -> Architecture:
    """A ``ValueError`` or a ``TypeError`` says what cannot be."""
    gated, activation = _activation(config)
    names = tables(state)
    layers = config["num_layers"]
    return Architecture(
        source_vocabulary=config["vocab_size"],
        target_vocabulary=config["vocab_size"],
        width=config["d_model"],
        heads=config["num_heads"],
        encoder_layers=layers,
        decoder_layers=layers if config["num_decoder_layers"] is None else config["num_decoder_layers"],
        feed_forward=config["d_ff"],
        attention_width=config["d_kv"] * config["num_heads"],
        attention_scale=1.0,
        activation=ACTIVATIONS[activation],
        gated=gated,
        bias=False,
        norm="rms",
        positions="relative",
        max_positions=max(longest, LONGEST, config.get("n_positions") or 0),
        relative_buckets=config["relative_attention_num_buckets"],
        relative_distance=config["relative_attention_max_distance"],
        joint_vocabulary=_same(state, names["source"], names["target"]),
        tied_output=_same(state, names["target"], names["output"]),
        output_scale=config["d_model"] ** -0.5 if _scales_output(config) else 1.0,
        embedding_scale=1.0,
        norm_epsilon=config["layer_norm_epsilon"],
    )


def _activation(config: Settings) -> tuple[bool, str]:
    """Whether it is gated, and its name in transformers."""
    kind, _, name = str(config["feed_forward_proj"]).rpartition("-")
    if kind == "gated" and name == "gelu":
        name = "gelu_new"
    return bool(config.get("is_gated_act", kind == "gated")), str(config.get("dense_act_fn", name))


def _scales_output(config: Settings) -> bool:
    """T5 1.0 does, 1.1 and mT5 do not; what tells them apart is a setting about something else."""
    if config["model_type"] != "t5":
        return False
    return bool(config.get("scale_decoder_outputs", config.get("tie_word_embeddings") is not False))


def _same(state: Tensors, first: str, second: str) -> bool:
    return first == second or torch.equal(state[first], state[second])
