"""The shape of an encoder-decoder Transformer, and what it costs."""

from dataclasses import dataclass
from typing import Literal

from seq2edge.config.schema import short

# "gelu" is exact; "gelu_tanh" and "gelu_sigmoid" are its approximations by tanh, and by x * sigmoid(1.702 * x)
Activation = Literal["relu", "gelu", "silu", "gelu_tanh", "gelu_sigmoid"]
# "sinusoidal" has sines and cosines in turns, "sinusoidal_halves" all sines before all cosines, and
# "sinusoidal_stretched" so too, with the slightly longer waves of tensor2tensor;
# "relative" is a bias of each head for the distance between two tokens, the same in all layers, as in T5
Positions = Literal["sinusoidal", "sinusoidal_halves", "sinusoidal_stretched", "learned", "relative", "none"]
Norm = Literal["layer", "rms"]
# what the decoder has for the tokens before: attention to all of them, or a recurrent cell, as in Marian's students
DecoderCell = Literal["attention", "ssru"]
COUNT_BYTES = 8  # how many tokens were before, as an integer
LARGEST = {  # far more than any model has; what is larger is no model
    "source_vocabulary": 2**24,
    "target_vocabulary": 2**24,
    "width": 2**16,
    "heads": 2**12,
    "feed_forward": 2**20,
    "encoder_layers": 1000,
    "decoder_layers": 1000,
    "max_positions": 1_000_000,
}


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """All that decides the names, shapes and mathematics of a model's tensors."""

    source_vocabulary: int
    target_vocabulary: int
    width: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    decoder_cell: DecoderCell = "attention"
    feed_forward: int
    attention_width: int | None = None  # of all heads together; left out, the width
    attention_scale: float | None = None  # queries are multiplied by it; left out, 1 / the root of a head's width
    activation: Activation = "relu"
    gated: bool = False  # feed-forward as output(activation(gate(x)) * inner(x))
    bias: bool = True  # in all linear layers but the output projection
    norm: Norm = "layer"
    norm_first: bool = True  # norm before each sublayer, or after it
    final_norm: bool = True  # another norm at the end of both stacks
    positions: Positions = "sinusoidal"
    position_offset: int = 0  # the number of the first position in a sinusoidal table
    max_positions: int = 512
    relative_buckets: int = 32  # relative distances that a bias is learned for; far ones share a bucket
    relative_distance: int = 128  # from here on, all are in the last bucket
    joint_vocabulary: bool = True  # source and target share one embedding
    tied_output: bool = True  # the output projection is the target embedding
    output_bias: bool = False
    output_scale: float = 1.0  # states are multiplied by it before the output projection
    embedding_scale: float | None = None  # token vectors are multiplied by it; left out, the root of the width
    embedding_norm: bool = False  # a norm behind both embeddings, positions included
    zero_start: bool = False  # the first target token has no vector, only its position, as in Marian
    norm_epsilon: float = 1e-5

    def __post_init__(self) -> None:
        for name, most in LARGEST.items():
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise ValueError(f"{name} is {short(value)}, but must be at least 1 and at most {most:,}")
        name = "width" if self.attention_width is None else "attention_width"
        if not 1 <= self.inner_width <= LARGEST["width"]:
            raise ValueError(f"{name} is {self.inner_width}, but must be at least 1 and at most {LARGEST['width']:,}")
        if self.inner_width % self.heads:
            raise ValueError(f"{name} {self.inner_width} cannot be divided among {self.heads} heads")
        if self.positions.startswith("sinusoidal") and self.width % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {self.width}")
        if self.positions == "sinusoidal_stretched" and self.width < 4:
            raise ValueError(f"stretched positions need a width of at least 4, not {self.width}")
        if not 0 <= self.position_offset <= LARGEST["max_positions"]:
            raise ValueError(f"position_offset is {self.position_offset}, but must be at least 0 and no giant number")
        if max(self.relative_buckets, self.relative_distance) > LARGEST["max_positions"]:
            raise ValueError("relative_buckets or relative_distance is larger than that of any model")
        if self.position_offset and not self.positions.startswith("sinusoidal"):
            raise ValueError("position_offset is for sinusoidal tables; a learned one holds the rows that are used")
        if self.positions == "relative" and not 2 <= self.relative_buckets // 2 < self.relative_distance:
            raise ValueError("relative positions need at least 4 buckets, and a distance above half their number")
        if self.positions == "relative" and self.decoder_cell != "attention":
            raise ValueError("relative positions are between tokens that look at each other, which an SSRU does not")
        if not 0 < self.norm_epsilon < 1:
            raise ValueError(f"norm_epsilon is {self.norm_epsilon}, but must be between 0 and 1")
        if self.joint_vocabulary and self.source_vocabulary != self.target_vocabulary:
            raise ValueError("a joint vocabulary needs source_vocabulary and target_vocabulary to be equal")

    @property
    def inner_width(self) -> int:
        """Of the queries of all heads together, and of the keys and the values."""
        return self.width if self.attention_width is None else self.attention_width

    @property
    def head_width(self) -> int:
        return self.inner_width // self.heads


def count_parameters(shape: Architecture) -> int:
    """Count the trained numbers by the textbook formulas."""
    attention = 4 * _attention_product(shape) + (3 * shape.inner_width + shape.width if shape.bias else 0)
    cell = _cell_weights(shape) + (shape.width if shape.bias else 0)
    before = cell if shape.decoder_cell == "ssru" else attention
    feed_forward = _feed_forward_weights(shape) + (_feed_forward_biases(shape) if shape.bias else 0)
    norm = (2 if shape.norm == "layer" else 1) * shape.width
    encoder = shape.encoder_layers * (attention + feed_forward + 2 * norm)
    decoder = shape.decoder_layers * (before + attention + feed_forward + 3 * norm)
    other_norms = 2 * norm * (shape.final_norm + shape.embedding_norm)
    relative_biases = 2 * shape.relative_buckets * shape.heads if shape.positions == "relative" else 0
    output_bias = shape.target_vocabulary if shape.output_bias else 0
    return encoder + decoder + other_norms + relative_biases + _table_rows(shape) * shape.width + output_bias


def cost_per_source_token(shape: Architecture, *, source_length: int) -> int:
    """Floating-point operations to encode one token, with its cross-attention keys and values."""
    attention = 4 * _attention_product(shape) + 2 * source_length * shape.inner_width
    products = attention + _feed_forward_weights(shape)
    cross_keys_values = 2 * _attention_product(shape)
    return 2 * (shape.encoder_layers * products + shape.decoder_layers * cross_keys_values)


def cost_per_target_token(shape: Architecture, *, source_length: int, target_length: int) -> int:
    """Floating-point operations to decode one token when ``target_length`` tokens are in the cache."""
    self_attention = 4 * _attention_product(shape) + 2 * target_length * shape.inner_width
    before = _cell_weights(shape) if shape.decoder_cell == "ssru" else self_attention
    cross_attention = 2 * _attention_product(shape) + 2 * source_length * shape.inner_width
    layer = before + cross_attention + _feed_forward_weights(shape)
    return 2 * (shape.decoder_layers * layer + shape.width * shape.target_vocabulary)


def cache_bytes(shape: Architecture, *, source_length: int, target_length: int, bytes_per_number: int = 4) -> int:
    """Memory that one sentence's keys and values take, cross and self, or its cells and the count of its tokens."""
    cross = 2 * source_length * shape.inner_width
    if shape.decoder_cell == "ssru":
        return shape.decoder_layers * (cross + shape.width) * bytes_per_number + COUNT_BYTES
    return shape.decoder_layers * (cross + 2 * target_length * shape.inner_width) * bytes_per_number


def _attention_product(shape: Architecture) -> int:
    """Weights of each of the four linear layers of an attention."""
    return shape.width * shape.inner_width


def _cell_weights(shape: Architecture) -> int:
    """Of the two linear layers of an SSRU: its input and its gate."""
    return 2 * shape.width**2


def _feed_forward_weights(shape: Architecture) -> int:
    return (3 if shape.gated else 2) * shape.width * shape.feed_forward


def _feed_forward_biases(shape: Architecture) -> int:
    return (2 if shape.gated else 1) * shape.feed_forward + shape.width


def _table_rows(shape: Architecture) -> int:
    """Rows of ``width`` numbers in embeddings, output projection and learned positions."""
    rows = shape.target_vocabulary
    if not shape.joint_vocabulary:
        rows += shape.source_vocabulary
    if not shape.tied_output:
        rows += shape.target_vocabulary
    if shape.positions == "learned":
        rows += 2 * shape.max_positions
    return rows
