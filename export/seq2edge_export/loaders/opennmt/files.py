"""Checkpoints of OpenNMT-py 3: a pickled file, or one of settings with a safetensors file beside it.

Folders that eole writes: settings and vocabularies in JSON, tensors in safetensors.
"""

import pickletools
import re
import zipfile
from collections import ChainMap
from pathlib import Path
from typing import Any

from torch import Tensor

from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.hugging_face.config import CONFIG
from seq2edge_export.loaders.opennmt.config import (
    GATED,
    NumberLimit,
    OpenNmtCheckpoint,
    OpenNmtSettings,
    Options,
    beyond,
    transforms_of,
    words_of,
)
from seq2edge_export.loaders.opennmt.weights import EOLE, OPENNMT_PY, OUTPUT
from seq2edge_export.loaders.state_dict import Namespace, StateDict, read_object, read_pickled, read_state_dict

PICKLE, SAFETENSORS = "data.pkl", ".safetensors"
TOLD_BY = {"opt", "vocab", "argparse Namespace"}  # texts in the pickle
OPENNMT_EPSILON, OPENNMT_HEADS = 1e-6, 8  # where a checkpoint does not say
SILU = "silu"  # which OpenNMT-py always gates
OLD_NORM = {"a_2": "weight", "b_2": "bias"}
RELATIVE = {-1: "rotary positions", -2: "ALiBi positions"}
LIMITS = (
    NumberLimit("model_task", ("seq2seq",), "language models"),
    NumberLimit("model_type", ("text",), "sources other than text"),
    NumberLimit("encoder_type", ("transformer",), "encoders other than the Transformer's"),
    NumberLimit("decoder_type", ("transformer",), "decoders other than the Transformer's"),
    NumberLimit("self_attn_type", ("scaled-dot", "scaled-dot-flash"), "average attention"),
    NumberLimit("relative_positions_buckets", (0,), "relative attention bias"),
    NumberLimit("parallel_residual", (False,), "parallel residuals"),
    NumberLimit("sliding_window", (0,), "attention within a window"),
    NumberLimit("num_experts", (0, None), "experts"),
    NumberLimit("copy_attn", (False,), "copy attention"),
    NumberLimit("generator_function", ("softmax",), "outputs without a softmax"),
    NumberLimit("n_src_feats", (0, None), "several source features"),
    NumberLimit("quant_type", ("", None), "weights that are already quantized"),
)
DEFAULTS = {"encoder_type": "rnn", "decoder_type": "rnn"}


def is_pt_file(path: Path) -> bool:
    """Whether the texts in a pickle are those of an OpenNMT checkpoint; nothing is unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            (name,) = (name for name in archive.namelist() if name.rpartition("/")[2] == PICKLE)
            operations = pickletools.genops(archive.read(name))
            return {text for _, text, _ in operations if isinstance(text, str)} >= TOLD_BY
    except Exception:  # whatever else it may be, it is none
        return False


def read_pt_file(path: Path) -> OpenNmtCheckpoint:
    content = _read(path)
    options: Options = vars(content["opt"])
    return OpenNmtCheckpoint(
        path=path,
        folder=path.parent,
        layout=OPENNMT_PY,
        settings=_opennmt_settings(options),
        state=_opennmt_state(content, path),
        words=words_of(content["vocab"], path),
        transforms=dict.fromkeys(transforms_of(options), options),
        one_cutter=options.get("share_vocab") is True,
        search={},
        problems=[*beyond(options, LIMITS, DEFAULTS), *_positions(options)],
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_pickled(path)
    except CheckpointError as error:
        if "torchtext" not in str(error):
            raise
        raise CheckpointError(
            f"{path} was written by OpenNMT-py 2 or older; convert it with tools/convertv2_v3.py of OpenNMT-py 3"
        ) from None
    if not isinstance(content, dict) or not isinstance(content.get("opt"), Namespace) or "vocab" not in content:
        raise CheckpointError(f"{path} is no checkpoint of OpenNMT-py 3, which has vocab, and opt with the settings")
    return content


def _opennmt_settings(options: Options) -> OpenNmtSettings:
    heads = options.get("heads", OPENNMT_HEADS)
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


def _positions(options: Options) -> list[str]:
    farthest = options.get("max_relative_positions", 0)
    if not farthest:
        return []
    kind = next((words for number, words in RELATIVE.items() if farthest == number), "relative positions")
    return [f"{kind} (max_relative_positions = {farthest!r})"]


def _opennmt_state(content: dict[str, Any], path: Path) -> StateDict:
    if "model" not in content:
        return _safetensors(path)
    state = {_plain(str(name)): tensor for name, tensor in _entries(content["model"])}
    for name, tensor in _entries(content.get("generator")):
        state[f"{OUTPUT}.{str(name).removeprefix('0.')}"] = tensor
    return {name: tensor for name, tensor in state.items() if isinstance(tensor, Tensor)}


def _safetensors(path: Path) -> StateDict:
    """The tensors beside a file that has none: in one file, or in several with numbers in their names."""
    beside = sorted(path.parent.iterdir())
    state: StateDict = {}
    for file in (file for file in beside if file.suffix == SAFETENSORS and file.name.startswith(f"{path.stem}.")):
        state |= read_state_dict(file)
    if not state:
        raise CheckpointError(f"{path} holds no tensors, and {path.stem}{SAFETENSORS} is not beside it")
    return state


def _entries(content: Any) -> list[tuple[Any, Any]]:
    return list(content.items()) if isinstance(content, dict) else []


def _plain(name: str) -> str:
    """A name as it is now; norms had other names in models of old."""
    return re.sub(r"(?<=\.)(a_2|b_2)$", lambda found: OLD_NORM[found[0]], name)


VOCABULARY, WEIGHTS = "vocab.json", "model.*.safetensors"
EOLE_EPSILON, EOLE_HEADS = 1e-5, 8  # of eole, which writes down what was set and nothing else
SINUSOIDAL = ("SinusoidalInterleaved", "SinusoidalConcat")
SIDES = ("encoder", "decoder")
ALIKE = {  # on both sides, with what eole takes where nothing is said
    "heads": EOLE_HEADS,
    "heads_kv": None,
    "head_dim": None,
    "attn_scaling": None,
    "mlp_activation_fn": "relu",
    "layer_norm": "standard",
    "norm_eps": EOLE_EPSILON,
}
MODEL_LIMITS = (
    NumberLimit("architecture", ("transformer", "custom", None), "models other than encoder-decoder Transformers"),
    NumberLimit("generator_function", ("softmax",), "outputs without a softmax"),
    NumberLimit("add_estimator", (False,), "an estimator of quality"),
    NumberLimit("left_pad", (False,), "padding on the left"),
)
EMBEDDING_LIMITS = (
    NumberLimit("embedding_type", ("standard", None), "embeddings of RoBERTa"),
    NumberLimit(
        "position_encoding_type", (*SINUSOIDAL, "Learned", None), "positions that are not added to the embeddings"
    ),
)
SIDE_LIMITS = (
    NumberLimit("encoder_type", ("transformer",), "encoders other than the Transformer's"),
    NumberLimit("decoder_type", ("transformer",), "decoders other than the Transformer's"),
    NumberLimit("encoder_layer_style", ("standard", None), "norms behind the sublayers of the encoder"),
    NumberLimit("final_encoder_layer_norm", (True,), "an encoder without its last norm"),
    NumberLimit("relative_positions_buckets", (0,), "relative attention bias"),
    NumberLimit("parallel_residual", (False,), "parallel residuals"),
    NumberLimit("ffn_layernorm", (False,), "norms before and behind each sublayer"),
    NumberLimit("query_norm", (False,), "norms of queries and keys"),
    NumberLimit("key_norm", (False,), "norms of queries and keys"),
    NumberLimit("value_norm", (False,), "norms of values"),
    NumberLimit("q_gating", (False,), "gated queries"),
    NumberLimit("sliding_window", (0,), "attention within a window"),
    NumberLimit("num_experts", (0,), "experts"),
    NumberLimit("layer_types", (None,), "layers of different kinds"),
    NumberLimit("num_mtp_heads", (0,), "prediction of several tokens"),
)
TRAINING_LIMITS = (NumberLimit("quant_type", ("", None), "weights that are already quantized"),)


def is_eole_folder(path: Path) -> bool:
    if not (path / CONFIG).is_file() or not (path / VOCABULARY).is_file():
        return False
    return isinstance(read_object(path / CONFIG).get("model"), dict)


def read_eole_folder(path: Path) -> OpenNmtCheckpoint:
    config = read_object(path / CONFIG)
    model = _section(config, "model")
    chosen = _section(config, "transforms_configs")
    return OpenNmtCheckpoint(
        path=path,
        folder=path,
        layout=EOLE,
        settings=_eole_settings(model),
        state=_eole_state(path),
        words=words_of(read_object(path / VOCABULARY), path / VOCABULARY),
        transforms={name: _section(chosen, name) for name in transforms_of(config)},
        one_cutter=config.get("share_vocab") is True,
        search=_section(config, "inference"),
        problems=_problems(config, model),
    )


def _eole_settings(model: Options) -> OpenNmtSettings:
    embeddings, decoder = _inside(model, "embeddings"), _inside(model, "decoder")
    heads = decoder.get("heads", ALIKE["heads"])
    scaling, normalize = decoder.get("attn_scaling"), embeddings.get("normalize") is True
    positions = embeddings.get("position_encoding_type", SINUSOIDAL[0])
    return OpenNmtSettings(
        heads=heads,
        key_heads=decoder.get("heads_kv") or heads,
        head_width=decoder.get("head_dim"),
        attention_scale=scaling**-0.5 if isinstance(scaling, int | float) and scaling > 0 else scaling,
        activation=str(decoder.get("mlp_activation_fn", ALIKE["mlp_activation_fn"])),
        norm=str(decoder.get("layer_norm", ALIKE["layer_norm"])),
        epsilon=decoder.get("norm_eps", EOLE_EPSILON),
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


def _eole_state(path: Path) -> StateDict:
    files = sorted(path.glob(WEIGHTS))
    if not files:
        raise CheckpointError(f"{path} has no {WEIGHTS}, the weights of a model of eole")
    state: StateDict = {}
    for file in files:
        state |= read_state_dict(file)
    return state
