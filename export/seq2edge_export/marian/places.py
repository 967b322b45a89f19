"""Where each tensor of Marian's Transformer goes in ours; needs torch."""

from collections.abc import Iterator

from torch import nn

from seq2edge.architecture import Architecture
from seq2edge_export.marian.config import Config
from seq2edge_export.model import Transformer
from seq2edge_export.placing import Place
from seq2edge_export.state_dict import StateDict

OUTPUT, LEGACY_OUTPUT, OUTPUT_BIAS = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W", "decoder_ff_logit_out_b"
TRAINED_POSITIONS = "Wpos"

# what stands behind the name of a layer -> linear layers of ours
SELF = {"self_{}q": "attention.query", "self_{}k": "attention.key", "self_{}v": "attention.value"}
CROSS = {"context_{}q": "cross.query", "context_{}k": "cross.key", "context_{}v": "cross.value"}
SELF_OUTPUT, CROSS_OUTPUT = {"self_{}o": "attention.output"}, {"context_{}o": "cross.output"}
FEED_FORWARD = {"ffn_{}1": "feed_forward.inner", "ffn_{}2": "feed_forward.output"}
CELL = {"rnn_{}f": "cell.gate"}
CELL_INPUT = "rnn_W"  # without bias
# the same for norms; Marian calls the norm of an attention after its last linear layer
SELF_NORM, CROSS_NORM = {"self_Wo": "attention_residual.norm"}, {"context_Wo": "cross_residual.norm"}
FEED_FORWARD_NORM = {"ffn_ffn": "feed_forward_residual.norm"}


def places(config: Config, shape: Architecture, state: StateDict) -> list[Place]:
    """A place for every parameter of ours."""
    found = [Place(config.target_embedding, ("target_embedding.tokens.weight",))]
    if not shape.joint_vocabulary:
        found.append(Place(config.source_embedding, ("source_embedding.tokens.weight",)))
    if not shape.tied_output:
        found.append(Place(LEGACY_OUTPUT if LEGACY_OUTPUT in state else OUTPUT, ("output.weight",)))
    if shape.output_bias:
        found.append(Place(OUTPUT_BIAS, ("output.bias",)))
    for number in range(shape.encoder_layers):
        layer = _Layer(f"encoder_l{number + 1}_", f"encoder.{number}.", config)
        found += [*layer.linears(SELF | SELF_OUTPUT | FEED_FORWARD), *layer.norms(SELF_NORM | FEED_FORWARD_NORM)]
    for number, theirs in enumerate(config.decoder_layers):
        layer = _Layer(f"decoder_l{theirs}_", f"decoder.{number}.", config)
        found += [*layer.linears(CROSS | CROSS_OUTPUT | FEED_FORWARD), *layer.norms(CROSS_NORM | FEED_FORWARD_NORM)]
        found += layer.cell() if shape.decoder_cell == "ssru" else layer.self_attention()
    for side, embedding in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        stack = _Layer(f"{side}_", "", config)
        if shape.final_norm:
            found += stack.norm("top", f"{side}_norm", "")
        if shape.embedding_norm:
            found += stack.norm("emb", f"{embedding}.norm", "_pre")
    return found


class _Layer:
    """The places within one layer."""

    def __init__(self, theirs: str, ours: str, config: Config) -> None:
        self.theirs, self.ours, self.config = theirs, ours, config

    def linears(self, modules: dict[str, str]) -> Iterator[Place]:
        for name, module in modules.items():
            for letter, kind in (("W", "weight"), ("b", "bias")):
                yield Place(self.theirs + name.format(letter), (f"{self.ours}{module}.{kind}",))

    def norms(self, modules: dict[str, str]) -> Iterator[Place]:
        for name, module in modules.items():
            yield from self.norm(name, self.ours + module, "_pre" if self.config.norm_first else "")

    def norm(self, name: str, module: str, suffix: str) -> Iterator[Place]:
        if self.config.norm == "rms":
            yield Place(f"{self.theirs}{name}_rms_scale{suffix}", (f"{module}.weight",))
            return
        for kind, ours in (("scale", "weight"), ("bias", "bias")):
            yield Place(f"{self.theirs}{name}_ln_{kind}{suffix}", (f"{module}.{ours}",))

    def self_attention(self) -> Iterator[Place]:
        yield from self.linears(SELF | SELF_OUTPUT)
        yield from self.norms(SELF_NORM)

    def cell(self) -> Iterator[Place]:
        yield from self.linears(CELL)
        yield Place(self.theirs + CELL_INPUT, (f"{self.ours}cell.input.weight",))
        norm = "rnn" if self.config.norm_first else "rnn_ffn"
        yield from self.norms({norm: "attention_residual.norm"})


def left_out(config: Config, found: list[Place], state: StateDict) -> list[Place]:
    """Those whose tensor may be missing: the settings say that Marian does without."""
    return [place for place in found if place.theirs not in state and _is_optional(config, place.ours[0])]


def fill_neutral(model: Transformer, found: list[Place]) -> None:
    """Projections that give what they get, biases of zero, norms that only norm."""
    for place in found:
        parameter = model.get_parameter(place.ours[0])
        if parameter.dim() == 2:
            nn.init.eye_(parameter)
        else:
            nn.init.constant_(parameter, 1.0 if place.ours[0].endswith("weight") else 0.0)


def _is_optional(config: Config, ours: str) -> bool:
    if ".norm." in ours or ours == "output.bias":
        return ".norm." in ours and not config.affine
    is_projection = ours.endswith((".output.weight", ".output.bias")) and "feed_forward" not in ours
    return (is_projection and not config.projected) or (ours.endswith("bias") and not config.bias)
