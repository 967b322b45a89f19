"""Where each tensor of OpenNMT-py and of eole goes in our Transformer."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from seq2edge.config.architecture import Architecture
from seq2edge_export.loaders.weight_map import WeightMapping

OUTPUT = "generator"
NORM = "norm"  # how modules of ours end that are norms
ATTENTION = {
    "linear_query": "query",
    "linear_keys": "key",
    "linear_values": "value",
    "final_linear": "output",
}
GATE = "feed_forward.gate"
Modules = Mapping[str, str]  # of theirs -> of ours


@dataclass(frozen=True)
class TensorLayout:
    """The names of a framework: whole ones, and those of the modules of a layer."""

    source: str
    target: str
    source_positions: tuple[str, ...]  # a table that is computed, or one that is learned
    target_positions: tuple[str, ...]
    encoder: str  # what stands before the number of a layer
    decoder: str
    encoder_modules: Modules
    decoder_modules: Modules
    feed_forward: tuple[str, str, str]  # the layer with the activation, the one that it gates, the last one
    unused: tuple[str, ...] = ()  # ends of names of what is stored without being used


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


def weight_map(shape: Architecture, layout: TensorLayout, names: Collection[str]) -> list[WeightMapping]:
    """A place for every parameter of ours but the positions; linear layers may be without bias."""
    found = [WeightMapping(layout.source, ("source_embedding.tokens.weight",))]
    if not shape.joint_vocabulary:
        found.append(WeightMapping(layout.target, ("target_embedding.tokens.weight",)))
    if not shape.tied_output:
        found.append(WeightMapping(f"{OUTPUT}.weight", ("output.weight",)))
    if shape.output_bias:
        found.append(WeightMapping(f"{OUTPUT}.bias", ("output.bias",)))
    sides = (
        ("encoder", shape.encoder_layers, layout.encoder, layout.encoder_modules),
        ("decoder", shape.decoder_layers, layout.decoder, layout.decoder_modules),
    )
    for side, layers, before, modules in sides:
        for layer in range(layers):
            every = {**modules, **_feed_forward(shape, layout)}
            found += _layer(shape, f"{before}{layer}", f"{side}.{layer}", every, names)
        found += _module(shape, f"{side}.layer_norm", f"{side}_norm", names)
    return found


def _feed_forward(shape: Architecture, layout: TensorLayout) -> Modules:
    active, gated, last = layout.feed_forward
    inner = {active: GATE, gated: "feed_forward.inner"} if shape.gated else {active: "feed_forward.inner"}
    return inner | {last: "feed_forward.output"}


def _layer(
    shape: Architecture, theirs: str, ours: str, modules: Modules, names: Collection[str]
) -> Iterator[WeightMapping]:
    for their_module, our_module in modules.items():
        yield from _module(shape, f"{theirs}.{their_module}", f"{ours}.{our_module}", names)


def _module(shape: Architecture, theirs: str, ours: str, names: Collection[str]) -> Iterator[WeightMapping]:
    yield WeightMapping(f"{theirs}.weight", (f"{ours}.weight",))
    has_bias = shape.norm == "layer" if ours.endswith(NORM) else f"{theirs}.bias" in names
    if has_bias:
        yield WeightMapping(f"{theirs}.bias", (f"{ours}.bias",))
