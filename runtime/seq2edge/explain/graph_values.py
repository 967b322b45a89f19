"""Find the attention of a graph, and make its inner values outputs.

A graph is changed in memory only, and only by appending to its bytes: protobuf parsers merge a message that appears
twice, so another graph message with nothing but outputs adds these outputs.

The graphs compute attention in one of three ways:

1. ``MultiHeadAttention``, a fused operator of the ``ort`` dialect. It does not return its weights on a CPU, so they are
   computed again from its queries, keys and bias.
2. ``GroupQueryAttention``, the same for the in-place KV cache of a decoder. One tensor holds queries, keys and values.
3. Standard operators: the input of a ``Softmax`` before a ``MatMul`` are the scores, its output the weights.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from seq2edge.bundle.protobuf import CONTINUES, LEN, Message

GRAPH, OUTPUT, NAME = 7, 12, 1  # fields of a model, of a graph, and of an output
POSITION_TABLE = "_embedding.positions"  # ends the name of the table that position embeddings are gathered from


@dataclass(frozen=True, kw_only=True)
class AttentionSite:
    """The tensors of one attention layer; what an operator does not have is empty."""

    kind: Literal["fused", "in-place", "plain"]
    queries: str = ""
    keys: str = ""
    bias: str = ""
    scores: str = ""
    weights: str = ""
    scale: float = 1.0  # factor of the scores

    @property
    def values(self) -> list[str]:
        return [name for name in (self.queries, self.keys, self.bias, self.scores, self.weights) if name]


@dataclass(frozen=True, kw_only=True)
class GraphValues:
    """The attention of a graph in the order of computation, and its position embeddings, if it has any."""

    attention: tuple[AttentionSite, ...]
    positions: str
    outputs: tuple[str, ...]  # of the graph as it is

    @property
    def hidden(self) -> list[str]:
        """The values that are not outputs yet."""
        names = [name for site in self.attention for name in site.values] + [self.positions] * bool(self.positions)
        return [name for name in dict.fromkeys(names) if name not in self.outputs]


def read_values(raw: bytes) -> GraphValues:
    """Find the attention of a vetted graph."""
    graph = Message(raw, 0, len(raw)).messages(GRAPH)[-1]
    nodes = graph.messages(1)
    multiplied = {name for node in nodes if node.text(4) == "MatMul" for name in node.texts(1)}
    sites = [site for node in nodes if (site := _site(node, multiplied)) is not None]
    return GraphValues(
        attention=tuple(sites),
        positions=next((node.texts(2)[0] for node in nodes if _gathers_positions(node)), ""),
        outputs=tuple(output.text(NAME) for output in graph.messages(OUTPUT)),
    )


def expose(raw: bytes, names: Iterable[str]) -> bytes:
    """Return the graph with more outputs."""
    return raw + _field(GRAPH, b"".join(_field(OUTPUT, _field(NAME, name.encode())) for name in names))


def _site(node: Message, multiplied: set[str]) -> AttentionSite | None:
    operator, inputs, outputs = node.text(4), node.texts(1), node.texts(2)
    if operator == "MultiHeadAttention":
        bias = inputs[5] if len(inputs) > 5 else ""
        return AttentionSite(kind="fused", queries=inputs[0], keys=inputs[1], bias=bias, scale=_scale(node))
    if operator == "GroupQueryAttention":
        return AttentionSite(kind="in-place", queries=inputs[0], keys=outputs[1], scale=_scale(node))
    if operator == "Softmax" and outputs[0] in multiplied:
        return AttentionSite(kind="plain", scores=inputs[0], weights=outputs[0])
    return None


def _scale(node: Message) -> float:
    """Return the factor of the scores, which our graphs always name: it is part of the queries' weights."""
    for attribute in node.messages(5):
        if attribute.text(1) == "scale":
            [(scale,)] = [struct.unpack("<f", content) for content in attribute.contents(2)]
            return float(scale)
    raise ValueError(f"the operator {node.text(4)} has no scale")


def _gathers_positions(node: Message) -> bool:
    return node.text(4) in ("Gather", "GatherND") and node.texts(1)[0].endswith(POSITION_TABLE)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | LEN) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Encode an integer with seven bits a byte, lowest first."""
    encoded = bytearray()
    while value >= CONTINUES:
        encoded.append(value % CONTINUES | CONTINUES)
        value //= CONTINUES
    return bytes([*encoded, value])
