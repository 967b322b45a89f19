"""The tensors of a Hugging Face folder, in one file or many.

Where each tensor of BART and its descendants goes in our Transformer.

Which of the embeddings are one and the same: the tensors decide, as in transformers.

The position tables of BART and its descendants.

``learned``: stored, from row 2 on (BART, mBART). ``halves``: the formula of the paper, all sines before all cosines,
which some files store all the same (Marian, Pegasus). ``stretched``: the formula of tensor2tensor, whose longest wave
is a little longer, counted from the padding id on (M2M100).
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import torch
from torch import Tensor

from seq2edge.config.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.hugging_face.config import HuggingFaceConfig, Table
from seq2edge_export.loaders.recipe.config import is_sinusoidal
from seq2edge_export.loaders.state_dict import StoredTensors, Tensors, read_object
from seq2edge_export.loaders.weight_map import WeightMapping, assign
from seq2edge_export.model.embedding import sinusoids
from seq2edge_export.model.transformer import Transformer

FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
OTHERS = {"tf_model.h5": "TensorFlow", "flax_model.msgpack": "Flax", "rust_model.ot": "Rust"}


def read_weights(folder: Path) -> StoredTensors:
    """Every tensor by its name, in the precision that it is stored in."""
    file = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if file is None:
        raise CheckpointError(f"{folder} has no weights: {FILES[0]} or {FILES[2]} is wanted{_instead(folder)}")
    if file.suffix != ".json":
        return StoredTensors([file])
    state = StoredTensors(folder / name for name in _shards(file))
    missing = sorted(read_object(file)["weight_map"].keys() - state.keys())
    if missing:
        raise CheckpointError(
            f"{file} names {', '.join(missing)}, which none of its files holds; copy the folder again"
        )
    return state


def _shards(index: Path) -> list[str]:
    names = read_object(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise CheckpointError(f"{index} has no weight_map, which says where each tensor is")
    files = sorted({str(name) for name in names.values()})
    outside = [name for name in files if PurePath(name).name != name]
    if outside:
        raise CheckpointError(f"{index} names {outside[0]!r}, which is not a file beside it")
    return files


def _instead(folder: Path) -> str:
    found = [words for name, words in OTHERS.items() if (folder / name).is_file()]
    if not found:
        return ""
    return f", not those of {found[0]}; load it in transformers and write it with save_pretrained"


SHARED, ENCODER, DECODER = (
    f"model.{part}.weight" for part in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
)
HEAD, BIAS = "lm_head.weight", "final_logits_bias"
POSITIONS = {side: f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
TIED = (SHARED, ENCODER, DECODER, HEAD)
# what old versions saved although it is no weight, or is computed again
NO_WEIGHT = re.compile(r"model\.(encoder|decoder)\.(version|embed_positions\.(weights|_float_tensor))")

# linear layer or norm of theirs -> module of ours, within a layer
SELF = {
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.out_proj": "attention.output",
    "self_attn_layer_norm": "attention_residual.norm",
}
CROSS = {
    "encoder_attn.q_proj": "cross.query",
    "encoder_attn.k_proj": "cross.key",
    "encoder_attn.v_proj": "cross.value",
    "encoder_attn.out_proj": "cross.output",
    "encoder_attn_layer_norm": "cross_residual.norm",
}
FEED_FORWARD = {
    "fc1": "feed_forward.inner",
    "fc2": "feed_forward.output",
    "final_layer_norm": "feed_forward_residual.norm",
}


def give_model_names(state: StoredTensors) -> None:
    """The names that the whole model gives its tensors; those of the bare encoder and decoder lack a word."""
    bare = not any(name.startswith("model.") for name in state)
    names = {name: f"model.{name}" if bare and name not in (HEAD, BIAS) else name for name in state}
    state.rename({old: new for old, new in names.items() if not NO_WEIGHT.fullmatch(new)})


def weight_map(shape: Architecture) -> list[WeightMapping]:
    """A place for every parameter of ours but embeddings, output and positions."""
    found: list[WeightMapping] = []
    for layer in range(shape.encoder_layers):
        found += _modules(f"model.encoder.layers.{layer}", f"encoder.{layer}", SELF | FEED_FORWARD)
    for layer in range(shape.decoder_layers):
        found += _modules(f"model.decoder.layers.{layer}", f"decoder.{layer}", SELF | CROSS | FEED_FORWARD)
    for side, embedding in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        if shape.final_norm:
            found += _module(f"model.{side}.layer_norm", f"{side}_norm")
        if shape.embedding_norm:
            found += _module(f"model.{side}.layernorm_embedding", f"{embedding}.norm")
    return found


def _modules(theirs: str, ours: str, modules: dict[str, str]) -> Iterator[WeightMapping]:
    for their_module, our_module in modules.items():
        yield from _module(f"{theirs}.{their_module}", f"{ours}.{our_module}")


def _module(theirs: str, ours: str) -> Iterator[WeightMapping]:
    for kind in ("weight", "bias"):
        yield WeightMapping(f"{theirs}.{kind}", (f"{ours}.{kind}",))


@dataclass(frozen=True)
class Embeddings:
    """The names of the tensors that are embeddings and output projection, one name twice where they are one."""

    source: str
    target: str
    output: str
    bias: bool

    @property
    def joint(self) -> bool:
        return self.source == self.target

    @property
    def tied(self) -> bool:
        return self.output == self.target

    def weight_map(self) -> list[WeightMapping]:
        found = [WeightMapping(self.target, ("target_embedding.tokens.weight",))]
        if not self.joint:
            found.append(WeightMapping(self.source, ("source_embedding.tokens.weight",)))
        if not self.tied:
            found.append(WeightMapping(self.output, ("output.weight",)))
        return [*found, WeightMapping(BIAS, ("output.bias",))] if self.bias else found


def find_embeddings(config: HuggingFaceConfig, state: Tensors, problems: list[str]) -> Embeddings:
    """What is missing is tied to what is there; what is there twice is one if it is equal."""
    if config.share_encoder_decoder_embeddings:
        source = _first(state, ENCODER, SHARED, DECODER, HEAD)
        target = _first(state, DECODER, SHARED, ENCODER, HEAD)
    else:
        source, target = ENCODER, _first(state, DECODER, HEAD)
    output = HEAD if HEAD in state else target
    if HEAD not in state and not config.tie_word_embeddings:
        problems.append(f"{HEAD} is missing, although tie_word_embeddings is false")
    problems += [f"{name} is missing" for name in dict.fromkeys((source, target)) if name not in state]
    target = source if same(state, source, target) else target
    output = target if same(state, output, target) else output
    return Embeddings(source, target, output, bias=BIAS in state)


def shape_bias(state: StoredTensors) -> None:
    """Make the bias of the logits a vector; most models have it, but filled with zeros, and then it is left out."""
    if BIAS not in state:
        return
    bias = state[BIAS].squeeze(0) if state[BIAS].dim() == 2 else state[BIAS]
    state.change(BIAS, bias.clone() if bias.count_nonzero() else None)


def _first(state: Tensors, *names: str) -> str:
    return next((name for name in names if name in state), names[0])


def same(state: Tensors, first: str, second: str) -> bool:
    """Whether two names mean one tensor, be it saved twice."""
    if first == second or first not in state or second not in state:
        return first == second
    return torch.equal(state[first], state[second])


FIRST_ROW = 2  # of BART's tables; the rows before are left from fairseq
Tables = dict[str, Tensor]  # by side; none where the formula of the shape is meant


def find_tables(table: Table, config: HuggingFaceConfig, state: Tensors, problems: list[str]) -> Tables:
    """The rows that are used, as far as they are stored or are no formula of ours."""
    if table == "stretched":
        rows = stretched(config.d_model, first=config.pad_token_id + 1, count=config.max_position_embeddings)
        return dict.fromkeys(POSITIONS, rows)
    first = FIRST_ROW if table == "learned" else 0
    wanted = (first + config.max_position_embeddings, config.d_model)
    found: Tables = {}
    for side, name in POSITIONS.items():
        if name not in state:
            problems += [f"{name} is missing"] if table == "learned" else []
        elif tuple(state[name].shape) != wanted or not torch.isfinite(state[name]).all():
            problems.append(f"{name} has the shape {tuple(state[name].shape)} instead of {wanted}, or no numbers")
        else:
            found[side] = state[name][first:].clone()
    return found


def with_positions(shape: Architecture, tables: Tables) -> Architecture:
    """The shape with the kind of positions that the tables are."""
    if shape.width % 2 == 0:
        formula = replace(shape, positions="sinusoidal_halves")
        if all(is_sinusoidal(table, formula) for table in tables.values()):
            return formula
    return replace(shape, positions="learned")


def fill_positions(model: Transformer, tables: Tables) -> None:
    """Take the tables as they are, computed ones too, so that not even their rounding differs."""
    for side, embedding in (("encoder", model.source_embedding), ("decoder", model.target_embedding)):
        positions = embedding.positions
        if positions is None:
            continue
        if side in tables:
            assign(positions, tables[side])
        elif positions.is_meta:  # the other side is stored, and is not what the formula gives
            assign(positions, sinusoids(replace(model.shape, positions="sinusoidal_halves")))


def stretched(width: int, *, first: int, count: int) -> Tensor:
    """So many rows from a first one on, in float32 as fairseq and transformers compute them."""
    waves = width // 2
    lengths = torch.exp(torch.arange(waves, dtype=torch.float32) * -(math.log(10000) / max(1, waves - 1)))
    weight_map = torch.arange(first, first + count, dtype=torch.float32)
    angles = weight_map[:, None] * lengths
    table = torch.cat([angles.sin(), angles.cos()], dim=1)
    return torch.nn.functional.pad(table, (0, width - 2 * waves))
