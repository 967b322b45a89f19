"""Where each tensor of BART and its descendants goes in our Transformer; needs torch."""

import re
from collections.abc import Iterator

from seq2edge.architecture import Architecture
from seq2edge_export.placing import Place
from seq2edge_export.stored_tensors import StoredTensors

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


def places(shape: Architecture) -> list[Place]:
    """A place for every parameter of ours but embeddings, output and positions."""
    found: list[Place] = []
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


def _modules(theirs: str, ours: str, modules: dict[str, str]) -> Iterator[Place]:
    for their_module, our_module in modules.items():
        yield from _module(f"{theirs}.{their_module}", f"{ours}.{our_module}")


def _module(theirs: str, ours: str) -> Iterator[Place]:
    for kind in ("weight", "bias"):
        yield Place(f"{theirs}.{kind}", (f"{ours}.{kind}",))
