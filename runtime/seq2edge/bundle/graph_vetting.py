"""Look through a graph of a bundle before onnxruntime sees it.

Hashes prove nothing about a bundle that a stranger has made, and onnxruntime was written for graphs of friends. So a
graph has to be of a form in which all readers understand the same (``onnx_form.py``), may use known operators alone,
may take constants from nowhere but itself and the weights file, and these must be there in full. What a graph makes
while it runs is bounded by ``memory_limit.py``.

What the messages of a graph in a bundle may hold, by the numbers of ``onnx.proto``.

No functions, no graphs inside graphs, no sparse tensors, no sequences: our graphs have none, so a message of any depth
or of any other kind is refused before onnxruntime sees it.

The operators that a graph in a bundle may use.

Those of our own graphs, and the ordinary mathematics of modules of the user's own. None that holds a graph, reads a
file, makes text or draws random numbers.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seq2edge.bundle import tensor_names
from seq2edge.bundle.onnx_file import EXTERNAL, STANDARD, OnnxFile, Tensor, read_model, read_tensor
from seq2edge.bundle.protobuf import FOUR, VARINT, BrokenFileError, Field, Form, Message, check_form
from seq2edge.errors import BundleError

TEXT, TEXTS = Field(text=True), Field(text=True, repeated=True)
INTEGER, INTEGERS = Field(kind=VARINT), Field(kind=VARINT, repeated=True)
FLOAT, FLOATS = Field(kind=FOUR), Field(kind=FOUR, repeated=True)
BYTES = Field()


def _one(form: Form) -> Field:
    return Field(inner=form)


def _several(form: Form) -> Field:
    return Field(inner=form, repeated=True)


ENTRY = Form("pair of texts", {1: TEXT, 2: TEXT})
OPSET = Form("set of operators", {1: TEXT, 2: INTEGER})
TENSOR = Form(
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
AXIS = Form("axis", {1: INTEGER, 2: TEXT, 3: TEXT})
SHAPE = Form("shape", {1: _several(AXIS)})
TENSOR_TYPE = Form("type of a tensor", {1: INTEGER, 2: _one(SHAPE)})
TYPE = Form("type", {1: _one(TENSOR_TYPE), 6: TEXT})
VALUE = Form("value", {1: TEXT, 2: _one(TYPE), 3: TEXT, 4: _several(ENTRY)})
ATTRIBUTE = Form(
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
NODE = Form(
    "node", {1: TEXTS, 2: TEXTS, 3: TEXT, 4: TEXT, 5: _several(ATTRIBUTE), 6: TEXT, 7: TEXT, 9: _several(ENTRY)}
)
GRAPH = Form(
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
MODEL = Form(
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


ONNXRUNTIME = "com.microsoft"

_STANDARD = """
Abs Acos Add And ArgMax ArgMin Asin Atan Attention AveragePool BatchNormalization BitShift BitwiseAnd BitwiseNot
BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum
DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten
Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual
GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM
LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul MatMulInteger Max MaxPool Mean
MeanVarianceNormalization Min Mish Mod Mul Neg NonZero Not OneHot Or PRelu Pad Pow QLinearMatMul QuantizeLinear
RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
ReduceProd ReduceSum ReduceSumSquare Relu Reshape RotaryEmbedding Round ScatterElements ScatterND Selu Shape Shrink
Sigmoid Sign SimplifiedLayerNormalization Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt
Squeeze Sub Sum Swish Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where Xor
"""


_OWN = """
BiasGelu DecoderMaskedMultiHeadAttention DynamicQuantizeMatMul FastGelu FusedMatMul GatherBlockQuantized Gelu
GroupQueryAttention MatMulIntegerToFloat MatMulNBits MultiHeadAttention QuickGelu RotaryEmbedding
SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization
"""
STANDARD_OPERATORS = frozenset(_STANDARD.split())
OWN_OPERATORS = frozenset(_OWN.split())  # of onnxruntime, in the dialect "ort" alone


# Inputs that say how large an output is, by operator and place.
SIZES: dict[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1),
    "Reshape": (1,),
    "Tile": (1,),
}
ENDS = {"Slice": (1, 2)}  # inputs that may be as large as an integer can be: as far as there is something
AT_LEAST_ONE = frozenset({"num_heads", "kv_num_heads", "K", "N", "bits", "block_size"})  # attributes to divide by


GRAPH_BYTES = 2**25  # a graph has hundreds of kilobytes; the weights are in another file
MOST_FIELDS = 1_000_000  # some seconds of reading
MOST_NODES = 50_000
MOST_AXES = 8
MOST_NUMBERS = 2**22  # that a constant shape makes: a mask or a table of positions at most
LARGEST_INTEGER = 2**31
NEWEST_OPSET = 64  # of any set; the newest standard is 25
SIGN = 2**63  # integers are read without one
PLACE_KEYS = {"location", "offset", "length"}
SHAPE_INTEGERS = {"int32": 4, "int64": 8}  # bytes of the types that shapes are made of
FLOAT_DATA, RAW_DATA = 4, 9
CONTENT = (FLOAT_DATA, 5, 7, RAW_DATA)  # fields of a tensor that may have its numbers


@dataclass(frozen=True)
class Node:
    """One operation of a graph."""

    domain: str
    operator: str
    inputs: list[str]
    message: Message


@dataclass(frozen=True)
class Constant:
    """A tensor of a graph: its message, and what that says."""

    message: Message
    tensor: Tensor

    @classmethod
    def read(cls, message: Message) -> "Constant":
        return cls(message, read_tensor(message))

    @property
    def is_elsewhere(self) -> bool:
        return self.message.integer(14) == EXTERNAL

    @property
    def integers(self) -> list[int]:
        """The numbers of a constant that a shape may be made of; none of what is in the weights file."""
        size = SHAPE_INTEGERS.get(self.tensor.type)
        if size is None or self.is_elsewhere:
            return []
        return [_signed(value) for value in self.message.integers(5) + self.message.integers(7)] + [
            int.from_bytes(raw[start : start + size], "little", signed=True)
            for raw in self.message.contents(9)
            for start in range(0, len(raw), size)
        ]


def vet_graph(path: Path, *, weights_bytes: int, portable: bool = False) -> OnnxFile:
    """Refuse a graph that our exporter would not have made; what it holds, if it is fine."""
    size = path.stat().st_size
    if size > GRAPH_BYTES:
        raise BundleError(f"{path} has {size:,} bytes, but a graph has at most {GRAPH_BYTES:,}: weights are elsewhere")
    model = Message(path.read_bytes(), 0, size)
    try:
        check_form(model, MODEL, most=MOST_FIELDS)
        found = read_model(model, path)
        _check_opsets(found)
        [graph] = model.messages(7)
        nodes, constants = list(_nodes(graph)), list(map(Constant.read, graph.messages(5)))
        _check_nodes(nodes, portable=portable)
        for constant in constants:
            _check_constant(constant, weights_bytes)
        _check_sizes(nodes, {constant.tensor.name: constant for constant in constants})
    except BrokenFileError as error:
        raise BundleError(f"{path} is not a graph as seq2edge writes them: {error}") from None
    return found


def _check_opsets(found: OnnxFile) -> None:
    for domain, version in found.opsets.items():
        if not 1 <= version <= NEWEST_OPSET:
            raise BrokenFileError(f"it wants version {version} of the operators of {domain!r}")


def _nodes(graph: Message) -> Iterator[Node]:
    for message in graph.messages(1):
        yield Node(message.text(7) or STANDARD, message.text(4), message.texts(1), message)


def _check_nodes(nodes: list[Node], *, portable: bool) -> None:
    if not 0 < len(nodes) <= MOST_NODES:
        raise BrokenFileError(f"it has {len(nodes):,} nodes, but should have some, and at most {MOST_NODES:,}")
    known = {STANDARD: STANDARD_OPERATORS, ONNXRUNTIME: frozenset() if portable else OWN_OPERATORS}
    for node in nodes:
        if node.operator not in known.get(node.domain, ()):
            dialect = " in the portable dialect" if portable and node.operator in OWN_OPERATORS else ""
            raise BrokenFileError(f"it uses the operator {node.domain}.{node.operator}, which is not known{dialect}")
        for attribute in node.message.messages(5):
            _check_attribute(node, attribute)


def _check_attribute(node: Node, attribute: Message) -> None:
    name = attribute.text(1)
    for constant in map(Constant.read, attribute.messages(5)):
        if constant.is_elsewhere:
            raise BrokenFileError(f"{node.operator} has a constant in another file")
        _check_inline(constant)
    value = _signed(attribute.integer(3))
    if name in AT_LEAST_ONE and not 1 <= value < LARGEST_INTEGER:
        raise BrokenFileError(f"{node.operator} has the {name} {value}")


def _check_constant(constant: Constant, weights_bytes: int) -> None:
    message, tensor = constant.message, constant.tensor
    if len(tensor.dims) > MOST_AXES:
        raise BrokenFileError(f"its constant {tensor.name!r} has {len(tensor.dims)} axes")
    if constant.is_elsewhere:
        _check_place(constant, weights_bytes)
    elif message.integer(14) or message.messages(13):
        raise BrokenFileError(f"its constant {tensor.name!r} is neither in the graph nor in another file")
    else:
        _check_inline(constant)


def _check_place(constant: Constant, weights_bytes: int) -> None:
    """Of a constant in the weights file: all of it must be there."""
    tensor = constant.tensor
    entries = [(entry.text(1), entry.text(2)) for entry in constant.message.messages(13)]
    place = dict(entries)
    if len(entries) > len(place) or not place.keys() <= PLACE_KEYS or place.get("location") != tensor_names.WEIGHTS:
        raise BrokenFileError(
            f"its constant {tensor.name!r} should be in {tensor_names.WEIGHTS}, but is said to be at {place}"
        )
    if tensor.type == "string" or any(number in constant.message.fields for number in CONTENT):
        raise BrokenFileError(f"its constant {tensor.name!r} is text, or both here and in {tensor_names.WEIGHTS}")
    length = place.get("length", str(tensor.bytes))
    if not length.isdecimal() or len(length) > 20 or int(length) != tensor.bytes:
        raise BrokenFileError(f"its constant {tensor.name!r} has {length} bytes, but takes {tensor.bytes:,}")
    if tensor.offset + tensor.bytes > weights_bytes:
        raise BrokenFileError(
            f"its constant {tensor.name!r} should end at byte {tensor.offset + tensor.bytes:,} of "
            f"{tensor_names.WEIGHTS}, which has {weights_bytes:,}"
        )


def _check_inline(constant: Constant) -> None:
    """Of a constant in the graph: it must be there in one form, and have as many numbers as it says."""
    message, tensor = constant.message, constant.tensor
    forms = [number for number in CONTENT if number in message.fields]
    if len(forms) > 1 or tensor.type == "string":
        raise BrokenFileError(f"its constant {tensor.name!r} is text, or there twice")
    if forms and forms != [RAW_DATA]:
        wanted, there = math.prod(tensor.dims), _typed_numbers(message, forms[0])
    else:
        wanted, there = tensor.bytes, sum(message.lengths(RAW_DATA))
    if wanted != there:
        raise BrokenFileError(
            f"its constant {tensor.name!r} should have {wanted:,} bytes or numbers, but has {there:,}"
        )


def _typed_numbers(message: Message, number: int) -> int:
    if number == FLOAT_DATA:
        return sum(message.lengths(FLOAT_DATA)) // 4
    return len(message.integers(number))


def _check_sizes(nodes: list[Node], constants: dict[str, Constant]) -> None:
    """Refuse sizes that no graph needs; those that are computed meet the limit of memory."""
    integers = {name: constant.integers for name, constant in constants.items()} | dict(_node_integers(nodes))
    for node in nodes:
        for place, name in enumerate(node.inputs):
            numbers = integers.get(name)
            if numbers:
                _check_size(node, place, numbers)


def _check_size(node: Node, place: int, numbers: list[int]) -> None:
    if place in SIZES.get(node.operator, ()) and math.prod(max(1, abs(one)) for one in numbers) > MOST_NUMBERS:
        raise BrokenFileError(f"{node.operator} should make something of the size {numbers[:MOST_AXES]}")
    largest = max(map(abs, numbers))
    if largest > LARGEST_INTEGER and place not in ENDS.get(node.operator, ()):
        raise BrokenFileError(f"{node.operator} has an integer as large as {largest:,}")


def _node_integers(nodes: list[Node]) -> Iterator[tuple[str, list[int]]]:
    """The integers of the constants that are nodes."""
    for node in nodes:
        if node.operator == "Constant":
            numbers = [
                _signed(value) for one in node.message.messages(5) for value in one.integers(3) + one.integers(8)
            ]
            tensors = (tensor for one in node.message.messages(5) for tensor in one.messages(5))
            yield node.message.text(2), numbers + [value for one in tensors for value in Constant.read(one).integers]


def _signed(value: int) -> int:
    return value - 2 * SIGN if value >= SIGN else value
