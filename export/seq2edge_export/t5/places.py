"""Where each tensor of Hugging Face's T5 goes in ours; needs torch."""

from collections.abc import Iterator

from seq2edge.architecture import Architecture
from seq2edge_export.placing import Place
from seq2edge_export.state_dict import Tensors
from seq2edge_export.t5.shape import OUTPUT, SHARED, SOURCE, TARGET, tables

PROJECTIONS = {"q": "query", "k": "key", "v": "value", "o": "output"}
PLAIN = {"wi": "inner", "wo": "output"}
GATED = {"wi_0": "gate", "wi_1": "inner", "wo": "output"}
FIRST = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"  # the bias of all layers is in the first
# Copies of others, and a bias that transformers ignores too.
LEFT_OUT = {SHARED, SOURCE, TARGET, OUTPUT, f"decoder.{FIRST}".replace("layer.0.Self", "layer.1.EncDec")}


def places(shape: Architecture, state: Tensors) -> list[Place]:
    """A place for every parameter of ours."""
    names = tables(state)
    found = [Place(names["target"], ("target_embedding.tokens.weight",))]
    if not shape.joint_vocabulary:
        found.append(Place(names["source"], ("source_embedding.tokens.weight",)))
    if not shape.tied_output:
        found.append(Place(names["output"], ("output.weight",)))
    for side in ("encoder", "decoder"):
        found.append(Place(f"{side}.{FIRST}", (f"{side}_bias.heads.weight",)))
        found.append(Place(f"{side}.final_layer_norm.weight", (f"{side}_norm.weight",)))
    feed_forward = ("DenseReluDense", "feed_forward", GATED if shape.gated else PLAIN)
    attention = ("SelfAttention", "attention", PROJECTIONS)
    cross = ("EncDecAttention", "cross", PROJECTIONS)
    for layer in range(shape.encoder_layers):
        found += _layer("encoder", layer, attention, feed_forward)
    for layer in range(shape.decoder_layers):
        found += _layer("decoder", layer, attention, cross, feed_forward)
    return found


def _layer(side: str, layer: int, *sublayers: tuple[str, str, dict[str, str]]) -> Iterator[Place]:
    for number, (theirs, ours, linears) in enumerate(sublayers):
        start = f"{side}.block.{layer}.layer.{number}"
        yield Place(f"{start}.layer_norm.weight", (f"{side}.{layer}.{ours}_residual.norm.weight",))
        for their_linear, our_linear in linears.items():
            yield Place(f"{start}.{theirs}.{their_linear}.weight", (f"{side}.{layer}.{ours}.{our_linear}.weight",))
