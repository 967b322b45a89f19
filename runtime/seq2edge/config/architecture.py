"""Describe the architecture of an encoder-decoder Transformer, and compute its size and cost."""

from dataclasses import dataclass
from typing import Literal

from seq2edge.config.schema import short_repr

# "gelu" is exact; "gelu_tanh" and "gelu_sigmoid" are its approximations by tanh, and by x * sigmoid(1.702 * x)
Activation = Literal["relu", "gelu", "silu", "gelu_tanh", "gelu_sigmoid"]
# "sinusoidal" interleaves sines and cosines; "sinusoidal_halves" has all sines before all cosines, and so has
# "sinusoidal_stretched", with the slightly longer wavelengths of tensor2tensor; "relative" is a bias per head for the
# distance between two tokens, shared by all layers, as in T5
Positions = Literal["sinusoidal", "sinusoidal_halves", "sinusoidal_stretched", "learned", "relative", "none"]
Norm = Literal["layer", "rms"]
# how the decoder reads previous tokens: self-attention, or a recurrent cell as in the student models of Marian
DecoderCell = Literal["attention", "ssru"]
COUNT_BYTES = 8  # the number of previous tokens, as an int64
MAXIMUM = {  # far more than any model has
    "source_vocabulary": 2**24,
    "target_vocabulary": 2**24,
    "width": 2**16,
    "heads": 2**12,
    "feed_forward": 2**20,
    "encoder_layers": 256,
    "decoder_layers": 256,
    "max_positions": 1_000_000,
}


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """All settings that determine the tensors of a model and what it computes."""

    source_vocabulary: int
    target_vocabulary: int
    width: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    decoder_cell: DecoderCell = "attention"
    feed_forward: int
    attention_width: int | None = None  # of all heads together; None: the width
    attention_scale: float | None = None  # factor of the queries; None: 1 / sqrt(head_width)
    activation: Activation = "relu"
    gated: bool = False  # feed-forward as output(activation(gate(x)) * inner(x))
    bias: bool = True  # in all linear layers except the output projection
    norm: Norm = "layer"
    norm_first: bool = True  # norm before each sublayer, or after it
    final_norm: bool = True  # another norm at the end of both stacks
    positions: Positions = "sinusoidal"
    position_offset: int = 0  # position of the first token in a sinusoidal table
    max_positions: int = 512
    relative_buckets: int = 32  # number of relative distances with a learned bias; large distances share a bucket
    relative_distance: int = 128  # distances from here on are in the last bucket
    joint_vocabulary: bool = True  # source and target share one embedding
    tied_output: bool = True  # the output projection is the target embedding
    output_bias: bool = False
    output_scale: float = 1.0  # factor of the states before the output projection
    embedding_scale: float | None = None  # factor of the token embeddings; None: sqrt(width)
    embedding_norm: bool = False  # a norm after both embeddings, including positions
    zero_start: bool = False  # the first target token has a zero embedding, only its position, as in Marian
    norm_epsilon: float = 1e-5

    def __post_init__(self) -> None:
        for name, maximum in MAXIMUM.items():
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= maximum:
                raise ValueError(f"{name} is {short_repr(value)}, but must be at least 1 and at most {maximum:,}")
        name = "width" if self.attention_width is None else "attention_width"
        if not 1 <= self.inner_width <= MAXIMUM["width"]:
            raise ValueError(f"{name} is {self.inner_width}, but must be at least 1 and at most {MAXIMUM['width']:,}")
        if self.inner_width % self.heads:
            raise ValueError(f"{name} {self.inner_width} is not divisible by {self.heads} heads")
        if self.positions.startswith("sinusoidal") and self.width % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {self.width}")
        if self.positions == "sinusoidal_stretched" and self.width < 4:
            raise ValueError(f"stretched positions need a width of at least 4, not {self.width}")
        if not 0 <= self.position_offset <= MAXIMUM["max_positions"]:
            raise ValueError(
                f"position_offset is {self.position_offset}, but must be between 0 and {MAXIMUM['max_positions']:,}"
            )
        if max(self.relative_buckets, self.relative_distance) > MAXIMUM["max_positions"]:
            raise ValueError(f"relative_buckets and relative_distance must be at most {MAXIMUM['max_positions']:,}")
        if self.position_offset and not self.positions.startswith("sinusoidal"):
            raise ValueError(
                "position_offset is for sinusoidal positions; a learned table must hold only the used rows"
            )
        if self.positions == "relative" and not 2 <= self.relative_buckets // 2 < self.relative_distance:
            raise ValueError(
                "relative positions need at least 4 buckets, and a relative_distance above half their number"
            )
        if self.positions == "relative" and self.decoder_cell != "attention":
            raise ValueError("relative positions need self-attention in the decoder, but decoder_cell is an SSRU")
        if not 0 < self.norm_epsilon < 1:
            raise ValueError(f"norm_epsilon is {self.norm_epsilon}, but must be between 0 and 1")
        if self.joint_vocabulary and self.source_vocabulary != self.target_vocabulary:
            raise ValueError("a joint vocabulary needs source_vocabulary and target_vocabulary to be equal")

    @property
    def inner_width(self) -> int:
        """The width of the queries of all heads together, and of the keys and values."""
        return self.width if self.attention_width is None else self.attention_width

    @property
    def head_width(self) -> int:
        return self.inner_width // self.heads


def count_parameters(shape: Architecture) -> int:
    """Return the number of trained parameters."""
    attention = 4 * _attention_product(shape) + (3 * shape.inner_width + shape.width if shape.bias else 0)
    cell = _cell_weights(shape) + (shape.width if shape.bias else 0)
    self_attention = cell if shape.decoder_cell == "ssru" else attention
    feed_forward = _feed_forward_weights(shape) + (_feed_forward_biases(shape) if shape.bias else 0)
    norm = (2 if shape.norm == "layer" else 1) * shape.width
    encoder = shape.encoder_layers * (attention + feed_forward + 2 * norm)
    decoder = shape.decoder_layers * (self_attention + attention + feed_forward + 3 * norm)
    other_norms = 2 * norm * (shape.final_norm + shape.embedding_norm)
    relative_biases = 2 * shape.relative_buckets * shape.heads if shape.positions == "relative" else 0
    output_bias = shape.target_vocabulary if shape.output_bias else 0
    return encoder + decoder + other_norms + relative_biases + _table_rows(shape) * shape.width + output_bias


def cost_per_source_token(shape: Architecture, *, source_length: int) -> int:
    """Return the floating-point operations to encode one token, including its cross-attention keys and values."""
    attention = 4 * _attention_product(shape) + 2 * source_length * shape.inner_width
    products = attention + _feed_forward_weights(shape)
    cross_keys_values = 2 * _attention_product(shape)
    return 2 * (shape.encoder_layers * products + shape.decoder_layers * cross_keys_values)


def cost_per_target_token(shape: Architecture, *, source_length: int, target_length: int) -> int:
    """Return the floating-point operations to decode one token when ``target_length`` tokens are in the cache."""
    self_attention = 4 * _attention_product(shape) + 2 * target_length * shape.inner_width
    if shape.decoder_cell == "ssru":
        self_attention = _cell_weights(shape)
    cross_attention = 2 * _attention_product(shape) + 2 * source_length * shape.inner_width
    layer = self_attention + cross_attention + _feed_forward_weights(shape)
    return 2 * (shape.decoder_layers * layer + shape.width * shape.target_vocabulary)


def cache_bytes(shape: Architecture, *, source_length: int, target_length: int, bytes_per_value: int = 4) -> int:
    """Return the bytes of the cache of one sentence: cross-attention, and self-attention or recurrent cells."""
    cross = 2 * source_length * shape.inner_width
    if shape.decoder_cell == "ssru":
        return shape.decoder_layers * (cross + shape.width) * bytes_per_value + COUNT_BYTES
    return shape.decoder_layers * (cross + 2 * target_length * shape.inner_width) * bytes_per_value


def _attention_product(shape: Architecture) -> int:
    """Return the weights of one of the four linear layers of an attention."""
    return shape.width * shape.inner_width


def _cell_weights(shape: Architecture) -> int:
    """Return the weights of the two linear layers of an SSRU, its input and its gate."""
    return 2 * shape.width**2


def _feed_forward_weights(shape: Architecture) -> int:
    return (3 if shape.gated else 2) * shape.width * shape.feed_forward


def _feed_forward_biases(shape: Architecture) -> int:
    return (2 if shape.gated else 1) * shape.feed_forward + shape.width


def _table_rows(shape: Architecture) -> int:
    """Return the rows of all embeddings, the output projection and learned positions."""
    rows = shape.target_vocabulary
    if not shape.joint_vocabulary:
        rows += shape.source_vocabulary
    if not shape.tied_output:
        rows += shape.target_vocabulary
    if shape.positions == "learned":
        rows += 2 * shape.max_positions
    return rows
