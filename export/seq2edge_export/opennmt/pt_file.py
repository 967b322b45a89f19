"""Checkpoints of OpenNMT-py 3: a pickled file, or one of settings with a safetensors file beside it; needs torch."""

import pickletools
import re
import zipfile
from pathlib import Path
from typing import Any

from torch import Tensor

from seq2edge.errors import CheckpointError
from seq2edge_export.namespace_pickle import Namespace, read_pickled
from seq2edge_export.opennmt.given import Given, transforms_of, words_of
from seq2edge_export.opennmt.layout import OPENNMT_PY, OUTPUT
from seq2edge_export.opennmt.settings import GATED, Limit, Options, Settings, beyond
from seq2edge_export.state_dict import StateDict, read_state_dict

PICKLE, SAFETENSORS = "data.pkl", ".safetensors"
TOLD_BY = {"opt", "vocab", "argparse Namespace"}  # texts in the pickle
EPSILON, HEADS = 1e-6, 8  # where a checkpoint does not say
SILU = "silu"  # which OpenNMT-py always gates
OLD_NORM = {"a_2": "weight", "b_2": "bias"}
RELATIVE = {-1: "rotary positions", -2: "ALiBi positions"}
LIMITS = (
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


def read_pt_file(path: Path) -> Given:
    content = _read(path)
    options: Options = vars(content["opt"])
    return Given(
        path=path,
        folder=path.parent,
        layout=OPENNMT_PY,
        settings=_settings(options),
        state=_state(content, path),
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


def _settings(options: Options) -> Settings:
    heads = options.get("heads", HEADS)
    activation = options.get("pos_ffn_activation_fn", "relu")
    return Settings(
        heads=heads,
        key_heads=options.get("num_kv") or (1 if options.get("multiquery") else heads),
        head_width=None,
        attention_scale=None,
        activation=GATED + SILU if activation == SILU else str(activation),
        norm=str(options.get("layer_norm", "standard")),
        epsilon=options.get("norm_eps", EPSILON),
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


def _state(content: dict[str, Any], path: Path) -> StateDict:
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
