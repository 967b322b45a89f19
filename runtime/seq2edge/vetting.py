"""Look through a graph of a bundle before onnxruntime sees it; needs nothing.

Hashes prove nothing about a bundle that a stranger has made, and onnxruntime was written for graphs of friends. So a
graph has to be of a form in which all readers understand the same (``onnx_form.py``), may use known operators alone,
may take constants from nowhere but itself and the weights file, and these must be there in full. What a graph makes
while it runs is bounded by ``memory_limit.py``.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seq2edge import names
from seq2edge.errors import BundleError
from seq2edge.onnx_file import EXTERNAL, STANDARD, OnnxFile, Tensor, read_model, read_tensor
from seq2edge.onnx_form import MODEL
from seq2edge.operators import AT_LEAST_ONE, ENDS, ONNXRUNTIME, OWN_OPERATORS, SIZES, STANDARD_OPERATORS
from seq2edge.protobuf import BrokenFileError, Message, check_form

GRAPH_BYTES = 2**25  # a graph has hundreds of kilobytes; the weights are in another file
MOST_FIELDS = 1_000_000  # some seconds of reading
MOST_NODES = 50_000
MOST_AXES = 8
MOST_NUMBERS = 2**22  # that a constant shape makes: a mask or a table of positions at most
LARGEST_INTEGER = 2**31
NEWEST_OPSET = 64  # of any set; the newest standard is 25
SIGN = 2**63  # integers are read without one
PLACE_KEYS = {"location", "offset", "length"}
INTEGERS = {"int32": 4, "int64": 8}  # bytes of the types that shapes are made of
FLOATS, RAW = 4, 9
CONTENT = (FLOATS, 5, 7, RAW)  # fields of a tensor that may have its numbers


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
        size = INTEGERS.get(self.tensor.type)
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
    if len(entries) > len(place) or not place.keys() <= PLACE_KEYS or place.get("location") != names.WEIGHTS:
        raise BrokenFileError(
            f"its constant {tensor.name!r} should be in {names.WEIGHTS}, but is said to be at {place}"
        )
    if tensor.type == "string" or any(number in constant.message.fields for number in CONTENT):
        raise BrokenFileError(f"its constant {tensor.name!r} is text, or both here and in {names.WEIGHTS}")
    length = place.get("length", str(tensor.bytes))
    if not length.isdecimal() or len(length) > 20 or int(length) != tensor.bytes:
        raise BrokenFileError(f"its constant {tensor.name!r} has {length} bytes, but takes {tensor.bytes:,}")
    if tensor.offset + tensor.bytes > weights_bytes:
        raise BrokenFileError(
            f"its constant {tensor.name!r} should end at byte {tensor.offset + tensor.bytes:,} of {names.WEIGHTS}, "
            f"which has {weights_bytes:,}"
        )


def _check_inline(constant: Constant) -> None:
    """Of a constant in the graph: it must be there in one form, and have as many numbers as it says."""
    message, tensor = constant.message, constant.tensor
    forms = [number for number in CONTENT if number in message.fields]
    if len(forms) > 1 or tensor.type == "string":
        raise BrokenFileError(f"its constant {tensor.name!r} is text, or there twice")
    if forms and forms != [RAW]:
        wanted, there = math.prod(tensor.dims), _typed_numbers(message, forms[0])
    else:
        wanted, there = tensor.bytes, sum(message.lengths(RAW))
    if wanted != there:
        raise BrokenFileError(
            f"its constant {tensor.name!r} should have {wanted:,} bytes or numbers, but has {there:,}"
        )


def _typed_numbers(message: Message, number: int) -> int:
    if number == FLOATS:
        return sum(message.lengths(FLOATS)) // 4
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
