"""Map the tensors of OpenNMT-py and eole to the Transformer."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2edge.config.architecture import Architecture
from seq2edge_export.loaders.opennmt.files import OUTPUT, Framework
from seq2edge_export.loaders.positions import Tables, as_table
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.loaders.weight_map import WeightMapping

NORM = "norm"  # suffix of our norms
ATTENTION = {
    "linear_query": "query",
    "linear_keys": "key",
    "linear_values": "value",
    "final_linear": "output",
}
GATE = "feed_forward.gate"
Modules = Mapping[str, str]  # theirs -> ours


@dataclass(frozen=True)
class TensorLayout:
    """The names of tensors and modules in a framework."""

    source: str
    target: str
    source_positions: tuple[str, ...]  # of a computed or a learned table
    target_positions: tuple[str, ...]
    encoder: str  # prefix of the layer number
    decoder: str
    encoder_modules: Modules
    decoder_modules: Modules
    feed_forward: tuple[str, str, str]  # the layer with the activation, the one it gates, the last one
    unused: tuple[str, ...] = ()  # suffixes of stored but unused tensors


def _attention(theirs: str, ours: str) -> dict[str, str]:
    return {f"{theirs}.{name}": f"{ours}.{module}" for name, module in ATTENTION.items()}


OPENNMT_PY = TensorLayout(
    source="encoder.embeddings.make_embedding.emb_luts.0.weight",
    target="decoder.embeddings.make_embedding.emb_luts.0.weight",
    source_positions=("encoder.embeddings.make_embedding.pe.pe",),
    target_positions=("decoder.embeddings.make_embedding.pe.pe",),
    encoder="encoder.transformer.",
    decoder="decoder.transformer_layers.",
    encoder_modules=_attention("self_attn", "attention")
    | {"layer_norm": "attention_residual.norm", "feed_forward.layer_norm": "feed_forward_residual.norm"},
    decoder_modules=_attention("self_attn", "attention")
    | _attention("context_attn", "cross")
    | {
        "layer_norm_1": "attention_residual.norm",
        "layer_norm_2": "cross_residual.norm",
        "feed_forward.layer_norm": "feed_forward_residual.norm",
    },
    feed_forward=("feed_forward.w_1", "feed_forward.w_3", "feed_forward.w_2"),
)
EOLE = TensorLayout(
    source="src_emb.embeddings.weight",
    target="tgt_emb.embeddings.weight",
    source_positions=("src_emb.pe.pe", "src_emb.pe.weight"),
    target_positions=("tgt_emb.pe.pe", "tgt_emb.pe.weight"),
    encoder="encoder.transformer_layers.",
    decoder="decoder.transformer_layers.",
    encoder_modules=_attention("self_attn", "attention")
    | {"input_layernorm": "attention_residual.norm", "post_attention_layernorm": "feed_forward_residual.norm"},
    decoder_modules=_attention("self_attn", "attention")
    | _attention("context_attn", "cross")
    | {
        "input_layernorm": "attention_residual.norm",
        "precontext_layernorm": "cross_residual.norm",
        "post_attention_layernorm": "feed_forward_residual.norm",
    },
    feed_forward=("mlp.gate_up_proj", "mlp.up_proj", "mlp.down_proj"),
    unused=(".layer_scalar",),
)
LAYOUTS: dict[Framework, TensorLayout] = {"opennmt-py": OPENNMT_PY, "eole": EOLE}
GROUPED = ("linear_keys", "linear_values")  # may have fewer heads than the queries
LORA = "LoRA weights, without the model that they belong to or not merged with it"
MAX_POSITIONS = 1024  # kept in a bundle; both frameworks compute 5000


def unsupported_tensors(state: StateDict) -> list[str]:
    """List the features that the names of tensors show and that are not supported."""
    return [LORA] if any(".lora_" in name for name in state) else []


def weight_map(architecture: Architecture, layout: TensorLayout, names: Collection[str]) -> list[WeightMapping]:
    """Map every parameter except positions; linear layers without a bias in ``names`` have none."""
    mappings = [WeightMapping(layout.source, ("source_embedding.tokens.weight",))]
    if not architecture.joint_vocabulary:
        mappings.append(WeightMapping(layout.target, ("target_embedding.tokens.weight",)))
    if not architecture.tied_output:
        mappings.append(WeightMapping(f"{OUTPUT}.weight", ("output.weight",)))
    if architecture.output_bias:
        mappings.append(WeightMapping(f"{OUTPUT}.bias", ("output.bias",)))
    sides = (
        ("encoder", architecture.encoder_layers, layout.encoder, layout.encoder_modules),
        ("decoder", architecture.decoder_layers, layout.decoder, layout.decoder_modules),
    )
    for side, layers, prefix, modules in sides:
        for layer in range(layers):
            layer_modules = {**modules, **_feed_forward(architecture, layout)}
            mappings += _layer(architecture, f"{prefix}{layer}", f"{side}.{layer}", layer_modules, names)
        mappings += _module(architecture, f"{side}.layer_norm", f"{side}_norm", names)
    return mappings


def _feed_forward(architecture: Architecture, layout: TensorLayout) -> Modules:
    activated, gated, last = layout.feed_forward
    inner = {activated: GATE, gated: "feed_forward.inner"} if architecture.gated else {activated: "feed_forward.inner"}
    return inner | {last: "feed_forward.output"}


def _layer(
    architecture: Architecture, theirs: str, ours: str, modules: Modules, names: Collection[str]
) -> Iterator[WeightMapping]:
    for their_module, our_module in modules.items():
        yield from _module(architecture, f"{theirs}.{their_module}", f"{ours}.{our_module}", names)


def _module(architecture: Architecture, theirs: str, ours: str, names: Collection[str]) -> Iterator[WeightMapping]:
    yield WeightMapping(f"{theirs}.weight", (f"{ours}.weight",))
    has_bias = architecture.norm == "layer" if ours.endswith(NORM) else f"{theirs}.bias" in names
    if has_bias:
        yield WeightMapping(f"{theirs}.bias", (f"{ours}.bias",))


def ignored_tensors(layout: TensorLayout, state: StateDict, *, positions: bool) -> set[str]:
    """Return the names of tensors that need no mapping: tied ones, position tables and unused ones."""
    tables = (*layout.source_positions, *layout.target_positions) if positions else ()
    unused = {name for name in state if layout.unused and name.endswith(layout.unused)}
    return unused | {layout.target, f"{OUTPUT}.weight", *tables}


def with_all_heads(state: StateDict, key_heads: int, architecture: Architecture) -> StateDict:
    """Repeat the heads of grouped keys and values, so that every query head has its own."""
    times = architecture.heads // key_heads
    rows = key_heads * architecture.head_width
    if times == 1 or rows * times != architecture.inner_width:
        return state
    return {
        name: _repeat_heads(tensor, architecture.head_width, times)
        if _is_grouped(name) and len(tensor) == rows
        else tensor
        for name, tensor in state.items()
    }


def _repeat_heads(tensor: Tensor, head_width: int, times: int) -> Tensor:
    heads = tensor.unflatten(0, (-1, head_width))  # (key heads, d, D), without D for a bias
    return heads.repeat_interleave(times, dim=0).flatten(0, 1)


def _is_grouped(name: str) -> bool:
    return any(f".{module}." in name for module in GROUPED)


def position_tables(
    layout: TensorLayout, state: StateDict, width: int, problems: list[str], *, first: int, scaled: bool
) -> Tables:
    """Return the stored position tables from row ``first`` on, times the square root of the width if ``scaled``."""
    sides = {"encoder": layout.source_positions, "decoder": layout.target_positions}
    tables = {side: _position_table(names, state, width, first, problems) for side, names in sides.items()}
    rows = min(MAX_POSITIONS, *(len(table) for table in tables.values()))
    return {side: table[:rows] * math.sqrt(width) if scaled else table[:rows] for side, table in tables.items()}


def _position_table(names: tuple[str, ...], state: StateDict, width: int, first: int, problems: list[str]) -> Tensor:
    name = next((name for name in names if name in state), names[0])
    if name not in state:
        problems.append(f"{name} is missing")
        return torch.zeros(1, width)
    table = as_table(state[name])[first:]
    if table.dim() != 2 or table.shape[1] != width or not len(table) or not torch.isfinite(table).all():
        problems.append(f"{name} has shape {tuple(state[name].shape)}, expected (positions, {width}), or contains NaN")
        return torch.zeros(1, width)
    return table
