"""Folders that eole writes: settings and vocabularies in JSON, tensors in safetensors; needs torch and safetensors."""

from collections import ChainMap
from pathlib import Path
from typing import Any

from seq2edge.errors import CheckpointError
from seq2edge_export.hugging_face.folder import CONFIG
from seq2edge_export.json_object import read_object
from seq2edge_export.opennmt.given import Given, transforms_of, words_of
from seq2edge_export.opennmt.layout import EOLE
from seq2edge_export.opennmt.settings import Limit, Options, Settings, beyond
from seq2edge_export.state_dict import StateDict, read_state_dict

VOCABULARY, WEIGHTS = "vocab.json", "model.*.safetensors"
EPSILON, HEADS = 1e-5, 8  # of eole, which writes down what was set and nothing else
SINUSOIDAL = ("SinusoidalInterleaved", "SinusoidalConcat")
SIDES = ("encoder", "decoder")
ALIKE = {  # on both sides, with what eole takes where nothing is said
    "heads": HEADS,
    "heads_kv": None,
    "head_dim": None,
    "attn_scaling": None,
    "mlp_activation_fn": "relu",
    "layer_norm": "standard",
    "norm_eps": EPSILON,
}
MODEL_LIMITS = (
    Limit("architecture", ("transformer", "custom", None), "models other than encoder-decoder Transformers"),
    Limit("generator_function", ("softmax",), "outputs without a softmax"),
    Limit("add_estimator", (False,), "an estimator of quality"),
    Limit("left_pad", (False,), "padding on the left"),
)
EMBEDDING_LIMITS = (
    Limit("embedding_type", ("standard", None), "embeddings of RoBERTa"),
    Limit("position_encoding_type", (*SINUSOIDAL, "Learned", None), "positions that are not added to the embeddings"),
)
SIDE_LIMITS = (
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
TRAINING_LIMITS = (Limit("quant_type", ("", None), "weights that are already quantized"),)


def is_eole_folder(path: Path) -> bool:
    if not (path / CONFIG).is_file() or not (path / VOCABULARY).is_file():
        return False
    return isinstance(read_object(path / CONFIG).get("model"), dict)


def read_eole_folder(path: Path) -> Given:
    config = read_object(path / CONFIG)
    model = _section(config, "model")
    chosen = _section(config, "transforms_configs")
    return Given(
        path=path,
        folder=path,
        layout=EOLE,
        settings=_settings(model),
        state=_state(path),
        words=words_of(read_object(path / VOCABULARY), path / VOCABULARY),
        transforms={name: _section(chosen, name) for name in transforms_of(config)},
        one_cutter=config.get("share_vocab") is True,
        search=_section(config, "inference"),
        problems=_problems(config, model),
    )


def _settings(model: Options) -> Settings:
    embeddings, decoder = _inside(model, "embeddings"), _inside(model, "decoder")
    heads = decoder.get("heads", ALIKE["heads"])
    scaling, normalize = decoder.get("attn_scaling"), embeddings.get("normalize") is True
    positions = embeddings.get("position_encoding_type", SINUSOIDAL[0])
    return Settings(
        heads=heads,
        key_heads=decoder.get("heads_kv") or heads,
        head_width=decoder.get("head_dim"),
        attention_scale=scaling**-0.5 if isinstance(scaling, int | float) and scaling > 0 else scaling,
        activation=str(decoder.get("mlp_activation_fn", ALIKE["mlp_activation_fn"])),
        norm=str(decoder.get("layer_norm", ALIKE["layer_norm"])),
        epsilon=decoder.get("norm_eps", EPSILON),
        positions=positions is not None,
        scaled_tokens=positions in SINUSOIDAL or normalize,
        scaled_positions=normalize,
        first_position=embeddings.get("position_shift") or 0,
        shared=model.get("share_embeddings") is True,
        tied=model.get("share_decoder_embeddings") is True,
    )


def _problems(config: Options, model: Options) -> list[str]:
    embeddings = _inside(model, "embeddings")
    found = [*beyond(model, MODEL_LIMITS, {}), *beyond(embeddings, EMBEDDING_LIMITS, {})]
    for side in SIDES:
        found += beyond(_inside(model, side), SIDE_LIMITS, {})
    for name, default in ALIKE.items():
        encoder, decoder = (_inside(model, side).get(name, default) for side in SIDES)
        if encoder != decoder:
            found.append(f"encoder and decoder with different {name} ({encoder!r} and {decoder!r})")
    return list(dict.fromkeys([*found, *beyond(_section(config, "training"), TRAINING_LIMITS, {})]))


def _inside(model: Options, part: str) -> Options:
    """The settings of a part: its own, and beneath them those of the whole model."""
    return ChainMap(_section(model, part), dict(model))


def _section(settings: Options, name: str) -> dict[str, Any]:
    found = settings.get(name)
    return found if isinstance(found, dict) else {}


def _state(path: Path) -> StateDict:
    files = sorted(path.glob(WEIGHTS))
    if not files:
        raise CheckpointError(f"{path} has no {WEIGHTS}, the weights of a model of eole")
    state: StateDict = {}
    for file in files:
        state |= read_state_dict(file)
    return state
