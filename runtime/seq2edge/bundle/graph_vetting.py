"""Vet a graph of a bundle before onnxruntime loads it.

Hashes prove nothing about a bundle from an untrusted source, and onnxruntime was written for trusted graphs. So a graph
must be encoded in a way that all parsers read the same, may use only known operators, and may take constants only from
itself and from the weights file, where they must be complete. What a graph allocates while it runs is bounded by
``devices/memory.py``.

The message schemas use the field numbers of ``onnx.proto``. They allow no functions, nested graphs, sparse tensors or
sequences, because our graphs have none. The operators are those of our own graphs and the ordinary mathematics of user
modules; none contains a graph, reads a file, produces strings or draws random numbers.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seq2edge.bundle import tensor_names
from seq2edge.bundle.onnx_file import EXTERNAL, STANDARD, OnnxFile, Tensor, read_model, read_tensor
from seq2edge.bundle.protobuf import FIXED32, VARINT, BrokenFileError, Field, Message, MessageSchema, check_schema
from seq2edge.errors import BundleError

MAX_FIELDS = 1_000_000  # some seconds of parsing
MAX_NODES = 50_000
MAX_AXES = 8
MAX_COMPUTED_AXES = 64  # kernels of onnxruntime overflow the stack with very many
MAX_ELEMENTS = 2**22  # of a tensor with a constant shape: at most a mask or a position table
MAX_INTEGER = 2**31
MAX_OPSET = 64  # of any domain; the newest standard opset is 25
SIGN = 2**63  # integers are parsed as unsigned
LOCATION_KEYS = {"location", "offset", "length"}
SHAPE_DTYPES = {"int32": 4, "int64": 8}  # bytes of the types that shapes consist of
FLOAT_DATA, INT32_DATA, INT64_DATA, RAW_DATA = 4, 5, 7, 9
DATA_FIELDS = (FLOAT_DATA, INT32_DATA, INT64_DATA, RAW_DATA)

# Inputs that determine the size of an output, as positions by operator.
SIZE_INPUTS: dict[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1),
    "Reshape": (1,),
    "Tile": (1,),
}
# Inputs whose length determines the number of axes of the output, by operator.
RANK_INPUTS = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1, "Unsqueeze": 1}
# Operators whose outputs have no axis that is longer than the longest of an input.
_NEVER_LONGER = """
Abs Add Cast Ceil Clip Div Equal Floor Gather Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg Not
Or ReduceMax ReduceMin ReduceProd ReduceSum Slice Squeeze Sub Unsqueeze Where
"""
NEVER_LONGER = frozenset(_NEVER_LONGER.split())
UNBOUNDED_INPUTS = {"Slice": (1, 2)}  # starts and ends: the largest integer means "to the end"
DIVISORS = frozenset({"num_heads", "kv_num_heads", "K", "N", "bits", "block_size"})  # attributes that must be positive

ONNXRUNTIME = "com.microsoft"

_STANDARD = """
Abs Acos Add And ArgMax ArgMin Asin Atan Attention AveragePool BatchNormalization BitShift BitwiseAnd BitwiseNot
BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum
DepthToSpace DequantizeLinear Div DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten
Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual
GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM
LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul MatMulInteger Max MaxPool Mean
MeanVarianceNormalization Min Mish Mod Mul Neg NonZero Not OneHot Or PRelu Pad Pow QLinearMatMul QuantizeLinear
RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
ReduceProd ReduceSum ReduceSumSquare Relu Reshape RotaryEmbedding Round ScatterElements ScatterND Selu Shape Shrink
Sigmoid Sign SimplifiedLayerNormalization Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt
Squeeze Sub Sum Swish Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where Xor
"""

_ONNXRUNTIME = """
BiasGelu DecoderMaskedMultiHeadAttention DynamicQuantizeMatMul FastGelu FusedMatMul GatherBlockQuantized Gelu
GroupQueryAttention MatMulIntegerToFloat MatMulNBits MultiHeadAttention QuickGelu RotaryEmbedding
SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization
"""
STANDARD_OPERATORS = frozenset(_STANDARD.split())
ONNXRUNTIME_OPERATORS = frozenset(_ONNXRUNTIME.split())  # allowed only in the dialect "ort"


def _one(schema: MessageSchema) -> Field:
    return Field(inner=schema)


def _several(schema: MessageSchema) -> Field:
    return Field(inner=schema, repeated=True)


TEXT, TEXTS = Field(text=True), Field(text=True, repeated=True)
INTEGER, INTEGERS = Field(wire_type=VARINT), Field(wire_type=VARINT, repeated=True)
FLOAT, FLOATS = Field(wire_type=FIXED32), Field(wire_type=FIXED32, repeated=True)
BYTES = Field()

ENTRY = MessageSchema("string pair", {1: TEXT, 2: TEXT})
OPSET = MessageSchema("opset", {1: TEXT, 2: INTEGER})
TENSOR = MessageSchema(
    "tensor",
    {
        1: INTEGERS,  # dims
        2: INTEGER,  # data_type
        4: FLOATS,  # float_data
        5: INTEGERS,  # int32_data
        7: INTEGERS,  # int64_data
        8: TEXT,  # name
        9: BYTES,  # raw_data
        12: TEXT,  # doc_string
        13: _several(ENTRY),  # external_data
        14: INTEGER,  # data_location
        16: _several(ENTRY),  # metadata_props
    },
)
AXIS = MessageSchema("axis", {1: INTEGER, 2: TEXT, 3: TEXT})
SHAPE = MessageSchema("shape", {1: _several(AXIS)})
TENSOR_TYPE = MessageSchema("tensor type", {1: INTEGER, 2: _one(SHAPE)})
TYPE = MessageSchema("type", {1: _one(TENSOR_TYPE), 6: TEXT})
VALUE = MessageSchema("value", {1: TEXT, 2: _one(TYPE), 3: TEXT, 4: _several(ENTRY)})
ATTRIBUTE = MessageSchema(
    "attribute",
    {
        1: TEXT,  # name
        2: FLOAT,
        3: INTEGER,
        4: BYTES,
        5: _one(TENSOR),
        7: FLOATS,
        8: INTEGERS,
        9: Field(repeated=True),  # strings
        13: TEXT,  # doc_string
        20: INTEGER,  # type
    },
)
NODE = MessageSchema(
    "node", {1: TEXTS, 2: TEXTS, 3: TEXT, 4: TEXT, 5: _several(ATTRIBUTE), 6: TEXT, 7: TEXT, 9: _several(ENTRY)}
)
GRAPH = MessageSchema(
    "graph",
    {
        1: _several(NODE),
        2: TEXT,  # name
        5: _several(TENSOR),
        10: TEXT,  # doc_string
        11: _several(VALUE),
        12: _several(VALUE),
        13: _several(VALUE),
        16: _several(ENTRY),
    },
)
MODEL = MessageSchema(
    "model",
    {
        1: INTEGER,
        2: TEXT,
        3: TEXT,
        4: TEXT,
        5: INTEGER,
        6: TEXT,
        7: _one(GRAPH),
        8: _several(OPSET),
        14: _several(ENTRY),
    },
)


def vet_graph(path: Path, raw: bytes, *, weights_bytes: int, portable: bool = False) -> OnnxFile:
    """Refuse a graph that our exporter would not have written; otherwise return its content.

    ``raw`` are the bytes of the file, as ``read_graph`` returns them.
    """
    model = Message(raw, 0, len(raw))
    try:
        check_schema(model, MODEL, max_fields=MAX_FIELDS)
        content = read_model(model, path)
        _check_opsets(content)
        [graph] = model.messages(7)
        nodes, constants = list(_nodes(graph)), list(map(Constant.read, graph.messages(5)))
        _check_nodes(nodes, portable=portable)
        for constant in constants:
            _check_constant(constant, weights_bytes)
        _check_sizes(nodes, {constant.tensor.name: constant for constant in constants})
        _check_ranks(nodes, constants)
    except BrokenFileError as error:
        raise BundleError(f"{path} is not a graph that seq2edge would write: {error}") from None
    return content


@dataclass(frozen=True)
class Node:
    """An operation of a graph."""

    domain: str
    operator: str
    inputs: list[str]
    message: Message


@dataclass(frozen=True)
class Constant:
    """A constant of a graph: its message, and the tensor that this describes."""

    message: Message
    tensor: Tensor

    @classmethod
    def read(cls, message: Message) -> "Constant":
        return cls(message, read_tensor(message))

    @property
    def is_external(self) -> bool:
        return self.message.integer(14) == EXTERNAL

    @property
    def integers(self) -> list[int]:
        """The values of a constant that a shape may consist of; empty for constants in the weights file."""
        size = SHAPE_DTYPES.get(self.tensor.type)
        if size is None or self.is_external:
            return []
        return [_signed(value) for value in self.message.integers(INT32_DATA) + self.message.integers(INT64_DATA)] + [
            int.from_bytes(raw[start : start + size], "little", signed=True)
            for raw in self.message.contents(RAW_DATA)
            for start in range(0, len(raw), size)
        ]


def _check_opsets(content: OnnxFile) -> None:
    for domain, version in content.opsets.items():
        if not 1 <= version <= MAX_OPSET:
            raise BrokenFileError(f"it uses opset {version} of {domain!r}, but only 1 to {MAX_OPSET} are allowed")


def _nodes(graph: Message) -> Iterator[Node]:
    for message in graph.messages(1):
        yield Node(message.text(7) or STANDARD, message.text(4), message.texts(1), message)


def _check_nodes(nodes: list[Node], *, portable: bool) -> None:
    if not 0 < len(nodes) <= MAX_NODES:
        raise BrokenFileError(f"it has {len(nodes):,} nodes, but must have 1 to {MAX_NODES:,}")
    known = {STANDARD: STANDARD_OPERATORS, ONNXRUNTIME: frozenset() if portable else ONNXRUNTIME_OPERATORS}
    for node in nodes:
        if node.operator not in known.get(node.domain, ()):
            dialect = " in the portable dialect" if portable and node.operator in ONNXRUNTIME_OPERATORS else ""
            raise BrokenFileError(f"it uses the operator {node.domain}.{node.operator}, which is not allowed{dialect}")
        for attribute in node.message.messages(5):
            _check_attribute(node, attribute)


def _check_attribute(node: Node, attribute: Message) -> None:
    name = attribute.text(1)
    for constant in map(Constant.read, attribute.messages(5)):
        if constant.is_external:
            raise BrokenFileError(f"an attribute of {node.operator} has its data in another file")
        _check_inline(constant)
    value = _signed(attribute.integer(3))
    if name in DIVISORS and not 1 <= value < MAX_INTEGER:
        raise BrokenFileError(f"{node.operator} has {name} {value}, but it must be at least 1")


def _check_constant(constant: Constant, weights_bytes: int) -> None:
    message, tensor = constant.message, constant.tensor
    if len(tensor.dims) > MAX_AXES:
        raise BrokenFileError(
            f"its constant {tensor.name!r} has {len(tensor.dims)} axes, but at most {MAX_AXES} are allowed"
        )
    if constant.is_external:
        _check_external(constant, weights_bytes)
    elif message.integer(14) or message.messages(13):
        raise BrokenFileError(f"its constant {tensor.name!r} has neither inline nor external data")
    else:
        _check_inline(constant)


def _check_external(constant: Constant, weights_bytes: int) -> None:
    """Check that a constant is in the weights file, completely."""
    tensor = constant.tensor
    entries = [(entry.text(1), entry.text(2)) for entry in constant.message.messages(13)]
    location = dict(entries)
    known_keys = len(entries) == len(location) and location.keys() <= LOCATION_KEYS
    if not known_keys or location.get("location") != tensor_names.WEIGHTS:
        raise BrokenFileError(f"its constant {tensor.name!r} should be in {tensor_names.WEIGHTS}, not at {location}")
    if tensor.type == "string" or any(number in constant.message.fields for number in DATA_FIELDS):
        raise BrokenFileError(f"its constant {tensor.name!r} is text, or has both inline and external data")
    length = location.get("length", str(tensor.bytes))
    if not length.isdecimal() or len(length) > 20 or int(length) != tensor.bytes:
        raise BrokenFileError(f"its constant {tensor.name!r} has {length} bytes, but takes {tensor.bytes:,}")
    if tensor.offset + tensor.bytes > weights_bytes:
        raise BrokenFileError(
            f"its constant {tensor.name!r} should end at byte {tensor.offset + tensor.bytes:,} of "
            f"{tensor_names.WEIGHTS}, which has {weights_bytes:,}"
        )


def _check_inline(constant: Constant) -> None:
    """Check that a constant in the graph is stored once, with the number of values of its shape."""
    message, tensor = constant.message, constant.tensor
    stored = [number for number in DATA_FIELDS if number in message.fields]
    if len(stored) > 1 or tensor.type == "string":
        raise BrokenFileError(f"its constant {tensor.name!r} is text, or is stored twice")
    if stored and stored != [RAW_DATA]:
        expected, actual = math.prod(tensor.dims), _count_values(message, stored[0])
    else:
        expected, actual = tensor.bytes, sum(message.lengths(RAW_DATA))
    if expected != actual:
        raise BrokenFileError(
            f"its constant {tensor.name!r} should have {expected:,} bytes or values, but has {actual:,}"
        )


def _count_values(message: Message, number: int) -> int:
    if number == FLOAT_DATA:
        return sum(message.lengths(FLOAT_DATA)) // 4
    return len(message.integers(number))


def _check_sizes(nodes: list[Node], constants: dict[str, Constant]) -> None:
    """Refuse constant sizes that no graph needs; computed ones are subject to the memory limit."""
    integers = {name: constant.integers for name, constant in constants.items()} | dict(_node_integers(nodes))
    for node in nodes:
        for position, name in enumerate(node.inputs):
            values = integers.get(name)
            if values:
                _check_size(node, position, values)


def _check_size(node: Node, position: int, values: list[int]) -> None:
    if position in SIZE_INPUTS.get(node.operator, ()) and math.prod(max(1, abs(one)) for one in values) > MAX_ELEMENTS:
        raise BrokenFileError(f"{node.operator} would make a tensor of size {values[:MAX_AXES]}, which is too large")
    largest = max(map(abs, values))
    if largest > MAX_INTEGER and position not in UNBOUNDED_INPUTS.get(node.operator, ()):
        raise BrokenFileError(f"{node.operator} has the integer input {largest:,}, which is too large")


def _check_ranks(nodes: list[Node], constants: list[Constant]) -> None:
    """Refuse a graph whose values may have very many axes; ``lengths`` are upper bounds of the longest axis."""
    ranks: dict[str, float] = {one.tensor.name: len(one.tensor.dims) for one in constants}
    lengths: dict[str, float] = {one.tensor.name: max(one.tensor.dims, default=1) for one in constants}
    for node in nodes:
        of_inputs = [ranks.get(name, MAX_AXES) for name in node.inputs]
        rank = _rank(node, of_inputs, [lengths.get(name, math.inf) for name in node.inputs])
        length = _length(node, of_inputs, [lengths.get(name, math.inf) for name in node.inputs if name])
        if rank > MAX_COMPUTED_AXES:
            raise BrokenFileError(f"{node.operator} may make a tensor of more than {MAX_COMPUTED_AXES} axes")
        for output in node.message.texts(2):
            ranks[output], lengths[output] = rank, length


def _length(node: Node, ranks: list[float], lengths: list[float]) -> float:
    """Return an upper bound of the longest axis of a node's output."""
    if node.operator == "Constant":
        attributes = node.message.messages(5)
        tensors = [Constant.read(tensor).tensor.dims for one in attributes for tensor in one.messages(5)]
        lists = [len(one.integers(8)) or math.inf for one in attributes if not one.messages(5)]
        return max([max(dims, default=1) for dims in tensors] + lists, default=math.inf)
    if node.operator == "Shape":
        return ranks[0] if ranks else math.inf
    if node.operator == "Concat":
        return sum(lengths)
    if node.operator == "Reshape" and lengths and lengths[0] <= MAX_COMPUTED_AXES:
        return float(lengths[0] ** max(1, ranks[0]))  # all elements may lie along one axis
    return max(lengths, default=math.inf) if node.operator in NEVER_LONGER else math.inf


def _rank(node: Node, ranks: list[float], lengths: list[float]) -> float:
    """Return an upper bound of the number of axes of a node's output."""
    position = RANK_INPUTS.get(node.operator)
    if node.operator == "Shape":
        return 1
    if position is not None and position < len(lengths):
        made = lengths[position]
        if node.operator == "Unsqueeze":
            return ranks[0] + made
        return max(made, ranks[0]) if node.operator == "Expand" else made
    if node.operator == "Unsqueeze":  # up to opset 12 the axes are an attribute
        return sum(ranks) + sum(len(one.integers(8)) for one in node.message.messages(5))
    return sum(ranks) if node.operator in ("Gather", "GatherND", "OneHot") else max(ranks, default=MAX_AXES)


def _node_integers(nodes: list[Node]) -> Iterator[tuple[str, list[int]]]:
    """Yield the name and the integers of every constant that is a node."""
    for node in nodes:
        if node.operator == "Constant":
            attributes = node.message.messages(5)
            values = [_signed(value) for one in attributes for value in one.integers(3) + one.integers(8)]
            tensors = (tensor for one in attributes for tensor in one.messages(5))
            yield node.message.text(2), values + [value for one in tensors for value in Constant.read(one).integers]


def _signed(value: int) -> int:
    return value - 2 * SIGN if value >= SIGN else value
