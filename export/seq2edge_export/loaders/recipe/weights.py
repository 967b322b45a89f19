"""Where each tensor of an nn.Transformer goes in ours."""

from collections.abc import Iterator

from seq2edge.config.architecture import Architecture
from seq2edge_export.loaders.recipe.config import Recipe
from seq2edge_export.loaders.weight_map import WeightMapping

# module of theirs -> module of ours, within a layer
ENCODER = {
    "self_attn.out_proj": "attention.output",
    "norm1": "attention_residual.norm",
    "linear1": "feed_forward.inner",
    "linear2": "feed_forward.output",
    "norm2": "feed_forward_residual.norm",
}
DECODER = ENCODER | {
    "multihead_attn.out_proj": "cross.output",
    "norm2": "cross_residual.norm",
    "norm3": "feed_forward_residual.norm",
}
ATTENTIONS = {"self_attn": "attention", "multihead_attn": "cross"}


def weight_map(recipe: Recipe, shape: Architecture) -> list[WeightMapping]:
    """A place for every parameter of ours but the positions."""
    names, kinds = recipe.tensors, ("weight", "bias") if recipe.model.bias else ("weight",)
    found = [
        WeightMapping(names.source_embedding, ("source_embedding.tokens.weight",)),
        WeightMapping(names.target_embedding, ("target_embedding.tokens.weight",)),
        WeightMapping(names.output, ("output.weight",)),
    ]
    if names.output_bias:
        found.append(WeightMapping(names.output_bias, ("output.bias",)))
    for kind in kinds:
        for layer in range(shape.encoder_layers):
            found += _layer(f"{names.encoder}.layers.{layer}", f"encoder.{layer}", ENCODER, kind)
        for layer in range(shape.decoder_layers):
            found += _layer(f"{names.decoder}.layers.{layer}", f"decoder.{layer}", DECODER, kind)
        if shape.final_norm:
            found.append(WeightMapping(f"{names.encoder}.norm.{kind}", (f"encoder_norm.{kind}",)))
            found.append(WeightMapping(f"{names.decoder}.norm.{kind}", (f"decoder_norm.{kind}",)))
    return found


def _layer(theirs: str, ours: str, modules: dict[str, str], kind: str) -> Iterator[WeightMapping]:
    for their_module, our_module in modules.items():
        yield WeightMapping(f"{theirs}.{their_module}.{kind}", (f"{ours}.{our_module}.{kind}",))
    for their_module, our_module in ATTENTIONS.items():
        if f"{their_module}.out_proj" in modules:
            parts = tuple(f"{ours}.{our_module}.{part}.{kind}" for part in ("query", "key", "value"))
            yield WeightMapping(f"{theirs}.{their_module}.in_proj_{kind}", parts)
