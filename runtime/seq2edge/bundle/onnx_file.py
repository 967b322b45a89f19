"""Read the content of an ONNX file without loading its weights.

Field numbers are those of ``onnx.proto``.
"""

import math
import mmap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from seq2edge.bundle.protobuf import BrokenFileError, Message
from seq2edge.errors import BundleError

Shape = tuple[int | str | None, ...]  # a symbolic axis by its name; None for an unnamed one

STANDARD = "ai.onnx"  # the domain of the standard operators; an empty one means the same
EXTERNAL = 1  # data location of a tensor: another file
STRING = 8
TYPES = {  # name and bits of a value
    1: ("float32", 32),
    2: ("uint8", 8),
    3: ("int8", 8),
    4: ("uint16", 16),
    5: ("int16", 16),
    6: ("int32", 32),
    7: ("int64", 64),
    STRING: ("string", 0),
    9: ("bool", 8),
    10: ("float16", 16),
    11: ("float64", 64),
    12: ("uint32", 32),
    13: ("uint64", 64),
    14: ("complex64", 64),
    15: ("complex128", 128),
    16: ("bfloat16", 16),
    17: ("float8e4m3fn", 8),
    18: ("float8e4m3fnuz", 8),
    19: ("float8e5m2", 8),
    20: ("float8e5m2fnuz", 8),
    21: ("uint4", 4),
    22: ("int4", 4),
    23: ("float4e2m1", 4),
    24: ("float8e8m0", 8),
    25: ("uint2", 2),
    26: ("int2", 2),
    27: ("float6e2m3", 6),
    28: ("float6e3m2", 6),
}
OTHER_TYPES = {4: "sequence", 5: "map", 8: "sparse tensor", 9: "optional"}

MAX_AXES, MAX_ELEMENTS = 64, 2**60  # more than memory can hold; a negative size is parsed as an even larger one


@dataclass(frozen=True, kw_only=True)
class Value:
    """An input or output of a graph."""

    name: str
    type: str  # "" if the file does not specify it
    shape: Shape | None  # None if the file does not specify the number of axes


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A constant, whose data is in the file itself or in another one next to it."""

    name: str
    type: str
    dims: tuple[int, ...]
    bytes: int
    location: str = ""  # name of the other file
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class OnnxFile:
    """The content of an ONNX file."""

    path: Path
    size: int
    ir_version: int
    producer: str
    opsets: dict[str, int]
    graph: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    operators: dict[str, int]  # number of uses, most frequent first; nested graphs included
    tensors: tuple[Tensor, ...]


def read_onnx(path: Path) -> OnnxFile:
    """Read a file; one that is truncated, damaged or not ONNX is an error."""
    if not path.is_file():
        raise BundleError(f"{path} is missing or not a plain file")
    size = path.stat().st_size
    try:
        if size == 0:
            raise BrokenFileError("it is empty")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return read_model(Message(data, 0, size), path)
    except BrokenFileError as error:
        raise BundleError(f"{path} is not an ONNX model, or is damaged: {error}") from None


def read_model(model: Message, path: Path) -> OnnxFile:
    """Read the content of a parsed file."""
    graphs, opsets = model.messages(7), {_domain(entry.text(1)): entry.integer(2) for entry in model.messages(8)}
    if not (model.integer(1) and graphs and opsets):
        raise BrokenFileError("it lacks a format version, a graph or an opset version")
    graph = graphs[-1]
    nodes = [*graph.messages(1), *(node for function in model.messages(25) for node in function.messages(7))]
    operators, inner_tensors = _walk(nodes)
    tensors = _initializers(graph)
    constant = {tensor.name for tensor in tensors}  # old files list these as inputs too
    return OnnxFile(
        path=path,
        size=model.end,
        ir_version=model.integer(1),
        producer=f"{model.text(2)} {model.text(3)}".strip(),
        opsets=opsets,
        graph=graph.text(2),
        inputs=tuple(value for value in map(_value, graph.messages(11)) if value.name not in constant),
        outputs=tuple(map(_value, graph.messages(12))),
        operators=dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
        tensors=(*tensors, *inner_tensors),
    )


def _walk(nodes: list[Message]) -> tuple[Counter[str], list[Tensor]]:
    """Count the operators of nodes and of the graphs nested in them, and collect the tensors."""
    operators, tensors = Counter[str](), list[Tensor]()
    while nodes:
        node = nodes.pop()
        operators[_operator(node)] += 1
        for attribute in node.messages(5):
            tensors += map(read_tensor, attribute.messages(5) + attribute.messages(10))
            for graph in attribute.messages(6) + attribute.messages(11):
                nodes += graph.messages(1)
                tensors += _initializers(graph)
    return operators, tensors


def _initializers(graph: Message) -> list[Tensor]:
    sparse = (part for pair in graph.messages(15) for part in pair.messages(1) + pair.messages(2))
    return [read_tensor(message) for message in (*graph.messages(5), *sparse)]


def read_tensor(message: Message) -> Tensor:
    """Read the description of a constant."""
    name, code, dims = message.text(8), message.integer(2), tuple(message.integers(1))
    if code not in TYPES or len(dims) > MAX_AXES or math.prod(dims) > MAX_ELEMENTS:
        raise BrokenFileError(f"its constant {name!r} has an invalid type or shape")
    dtype, bits = TYPES[code]
    stored = sum(message.lengths(6)) if code == STRING else -(-math.prod(dims) * bits // 8)
    entries = message.messages(13) if message.integer(14) == EXTERNAL else []
    external = {entry.text(1): entry.text(2) for entry in entries}
    offset = external.get("offset", "0")
    if not offset.isdecimal() or len(offset) > 20:
        raise BrokenFileError(f"its constant {name!r} has the invalid offset {offset!r}")
    location = external.get("location", "")
    return Tensor(name=name, type=dtype, dims=dims, bytes=stored, location=location, offset=int(offset))


def _value(message: Message) -> Value:
    name, types = message.text(1), message.messages(2)
    if not types:
        return Value(name=name, type="", shape=None)
    tensors = types[-1].messages(1)
    if not tensors:
        others = (other for number, other in OTHER_TYPES.items() if types[-1].messages(number))
        return Value(name=name, type=next(others, ""), shape=None)
    code, shapes = tensors[-1].integer(1), tensors[-1].messages(2)
    shape = tuple(map(_axis, shapes[-1].messages(1))) if shapes else None
    return Value(name=name, type=TYPES[code][0] if code in TYPES else "", shape=shape)


def _axis(message: Message) -> int | str | None:
    sizes = message.integers(1)
    return sizes[-1] if sizes else message.text(2) or None


def _operator(node: Message) -> str:
    domain, name = _domain(node.text(7)), node.text(4)
    return name if domain == STANDARD else f"{domain}.{name}"


def _domain(name: str) -> str:
    return name or STANDARD
