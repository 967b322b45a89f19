"""Read the tensors of a Hugging Face folder, and map those of BART and the models derived from it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

import torch

from seq2edge.config.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.hugging_face.config import HuggingFaceConfig, PositionTable
from seq2edge_export.loaders.positions import Tables, stretched_sinusoids
from seq2edge_export.loaders.state_dict import StoredTensors, Tensors, read_object
from seq2edge_export.loaders.weight_map import WeightMapping

FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
OTHER_FRAMEWORKS = {"tf_model.h5": "TensorFlow", "flax_model.msgpack": "Flax", "rust_model.ot": "Rust"}
FIRST_ROW = 2  # of learned position tables; the rows before are left over from fairseq
SHARED, ENCODER, DECODER = (
    f"model.{part}.weight" for part in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
)
HEAD, BIAS = "lm_head.weight", "final_logits_bias"
POSITIONS = {side: f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
TIED = (SHARED, ENCODER, DECODER, HEAD)
# stored by old versions, but not weights
NOT_WEIGHTS = re.compile(r"model\.(encoder|decoder)\.(version|embed_positions\.(weights|_float_tensor))")

# their linear layer or norm -> our module, within a layer
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


def read_weights(folder: Path) -> StoredTensors:
    """Return every tensor by name, in its stored precision."""
    file = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if file is None:
        raise CheckpointError(f"{folder} has no weights: expected {FILES[0]} or {FILES[2]}{_conversion_hint(folder)}")
    if file.suffix != ".json":
        return StoredTensors([file])
    state = StoredTensors(folder / name for name in _shards(file))
    missing = sorted(read_object(file)["weight_map"].keys() - state.keys())
    if missing:
        raise CheckpointError(
            f"{file} names {', '.join(missing)}, which is in none of its files; copy the folder again"
        )
    return state


def _shards(index: Path) -> list[str]:
    names = read_object(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise CheckpointError(f"{index} has no weight_map, which names the file of each tensor")
    files = sorted({str(name) for name in names.values()})
    outside = [name for name in files if PurePath(name).name != name]
    if outside:
        raise CheckpointError(f"{index} names {outside[0]!r}, which is not a file next to it")
    return files


def _conversion_hint(folder: Path) -> str:
    frameworks = [framework for name, framework in OTHER_FRAMEWORKS.items() if (folder / name).is_file()]
    if not frameworks:
        return ""
    return f", not those of {frameworks[0]}; load it in transformers and write it with save_pretrained"


def give_model_names(state: StoredTensors) -> None:
    """Add the prefix ``model.`` to the names of a model that was saved without its output layer."""
    bare = not any(name.startswith("model.") for name in state)
    names = {name: f"model.{name}" if bare and name not in (HEAD, BIAS) else name for name in state}
    state.rename({old: new for old, new in names.items() if not NOT_WEIGHTS.fullmatch(new)})


def weight_map(architecture: Architecture) -> list[WeightMapping]:
    """Map every parameter except embeddings, output projection and positions."""
    mappings: list[WeightMapping] = []
    for layer in range(architecture.encoder_layers):
        mappings += _modules(f"model.encoder.layers.{layer}", f"encoder.{layer}", SELF | FEED_FORWARD)
    for layer in range(architecture.decoder_layers):
        mappings += _modules(f"model.decoder.layers.{layer}", f"decoder.{layer}", SELF | CROSS | FEED_FORWARD)
    for side, embedding in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        if architecture.final_norm:
            mappings += _module(f"model.{side}.layer_norm", f"{side}_norm")
        if architecture.embedding_norm:
            mappings += _module(f"model.{side}.layernorm_embedding", f"{embedding}.norm")
    return mappings


def _modules(theirs: str, ours: str, modules: dict[str, str]) -> Iterator[WeightMapping]:
    for their_module, our_module in modules.items():
        yield from _module(f"{theirs}.{their_module}", f"{ours}.{our_module}")


def _module(theirs: str, ours: str) -> Iterator[WeightMapping]:
    for kind in ("weight", "bias"):
        yield WeightMapping(f"{theirs}.{kind}", (f"{ours}.{kind}",))


@dataclass(frozen=True)
class Embeddings:
    """The names of the embeddings and the output projection; tied ones have the same name."""

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
        mappings = [WeightMapping(self.target, ("target_embedding.tokens.weight",))]
        if not self.joint:
            mappings.append(WeightMapping(self.source, ("source_embedding.tokens.weight",)))
        if not self.tied:
            mappings.append(WeightMapping(self.output, ("output.weight",)))
        return [*mappings, WeightMapping(BIAS, ("output.bias",))] if self.bias else mappings


def find_embeddings(config: HuggingFaceConfig, state: Tensors, problems: list[str]) -> Embeddings:
    """Find the embeddings as transformers does: missing ones are tied to others, equal ones are one."""
    if config.share_encoder_decoder_embeddings:
        source = _first(state, ENCODER, SHARED, DECODER, HEAD)
        target = _first(state, DECODER, SHARED, ENCODER, HEAD)
    else:
        source, target = ENCODER, _first(state, DECODER, HEAD)
    output = HEAD if HEAD in state else target
    if HEAD not in state and not config.tie_word_embeddings:
        problems.append(f"{HEAD} is missing, although tie_word_embeddings is false")
    target = source if same_tensor(state, source, target) else target
    output = target if same_tensor(state, output, target) else output
    return Embeddings(source, target, output, bias=BIAS in state)


def shape_bias(state: StoredTensors) -> None:
    """Reshape the bias of the logits to a vector, or remove it if it is zero, as in most models."""
    if BIAS not in state:
        return
    bias = state[BIAS].squeeze(0) if state[BIAS].dim() == 2 else state[BIAS]
    state.change(BIAS, bias.clone() if bias.count_nonzero() else None)


def _first(state: Tensors, *names: str) -> str:
    return next((name for name in names if name in state), names[0])


def same_tensor(state: Tensors, first: str, second: str) -> bool:
    """Return whether two names stand for one tensor, which may be stored twice."""
    if first == second or first not in state or second not in state:
        return first == second
    return torch.equal(state[first], state[second])


def position_tables(table: PositionTable, config: HuggingFaceConfig, state: Tensors, problems: list[str]) -> Tables:
    """Return the used rows of the position tables that are stored, or computed by another formula than ours."""
    if table == "stretched":
        rows = stretched_sinusoids(config.d_model, first=config.pad_token_id + 1, count=config.max_position_embeddings)
        return dict.fromkeys(POSITIONS, rows)
    first = FIRST_ROW if table == "learned" else 0
    expected = (first + config.max_position_embeddings, config.d_model)
    tables: Tables = {}
    for side, name in POSITIONS.items():
        if name not in state:
            problems += [f"{name} is missing"] if table == "learned" else []
        elif tuple(state[name].shape) != expected or not torch.isfinite(state[name]).all():
            problems.append(f"{name} has shape {tuple(state[name].shape)}, expected {expected}, or contains NaN")
        else:
            tables[side] = state[name][first:].clone()
    return tables
