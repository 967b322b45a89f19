"""Ways to damage bytes, JSON and protobuf messages, all by the dice of one random generator."""

import copy
import json
import struct
from random import Random
from typing import Any

from seq2edge.bundle.protobuf import FIXED32, LEN, VARINT, Message, MessageSchema

INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    127,
    128,
    255,
    256,
    4096,
    65536,
    10**6,
    2**24,
    2**31 - 1,
    2**31,
    2**32,
    2**40,
    2**62,
    2**63 - 1,
)
FLOATS = (0.0, -1.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "",
    "\0",
    "../outside",
    "/etc/passwd",
    "weights.bin",
    "./weights.bin",
    "manifest.json",
    "a/b",
    "..",
    "\x1b[31m",
    "x" * 5000,
    "🙂" * 300,
    "\ud7ff\ue000",
    "source",
    "logits",
    "target",
)
OPERATORS = (
    "ConstantOfShape",
    "Expand",
    "Tile",
    "Range",
    "Loop",
    "If",
    "Scan",
    "Reshape",
    "MatMul",
    "Identity",
    "Pad",
    "RandomNormal",
    "ImageDecoder",
    "StringConcat",
    "GroupQueryAttention",
    "MultiHeadAttention",
    "MatMulNBits",
    "Gather",
    "LSTM",
    "Conv",
    "Einsum",
    "Resize",
    "TopK",
    "Split",
)

Tree = list[list[Any]]  # fields: number, kind, and an integer, bytes, or again a tree


def damage(chance: Random, content: bytes) -> bytes:
    """Flip, set, cut, insert, repeat or overwrite a few stretches of bytes."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        place = chance.randrange(len(data) + 1)
        kind = chance.randrange(8)
        if kind == 0 and data:
            data[place % len(data)] ^= 1 << chance.randrange(8)
        elif kind == 1 and data:
            data[place % len(data)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        elif kind == 2:
            del data[place:]
        elif kind == 3:
            data[place:place] = chance.randbytes(chance.choice((1, 4, 100)))
        elif kind == 4:
            data[place : place + chance.choice((1, 8, 200))] = b""
        elif kind == 5:
            length = chance.choice((4, 32, 1000))
            data[place:place] = data[chance.randrange(len(data) + 1) :][:length]
        elif kind == 6 and len(data) >= 8:
            number = chance.choice(INTEGERS) & (2**64 - 1)
            start = chance.randrange(len(data) - 7)
            width = chance.choice((1, 2, 4, 8))
            data[start : start + width] = number.to_bytes(8, "little")[:width]
        elif kind == 7:
            data += chance.choice((b"\0", b"\xff" * 10, bytes(data[:100])))
    return bytes(data)


def damage_json(chance: Random, content: bytes) -> bytes:
    """Change a few values of a JSON document, or the document itself."""
    tree = json.loads(content)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        tree = _changed(chance, tree)
    text = json.dumps(tree)
    return damage(chance, text.encode()) if chance.random() < 0.1 else text.encode()


def any_value(chance: Random) -> Any:
    """Something that JSON can say."""
    kind = chance.randrange(10)
    if kind < 3:
        return chance.choice((*INTEGERS, 10**30, 10**400))
    if kind < 4:
        return chance.choice(FLOATS)
    if kind < 6:
        return chance.choice(TEXTS)
    if kind < 7:
        return _deep(chance.choice((2, 50, 3000)), chance.random() < 0.5)
    return chance.choice((None, True, False, [], {}, [0] * 1000, {"a": 1}, [[1], [2, 3]]))


def damage_message(chance: Random, content: bytes, form: MessageSchema) -> bytes:
    """Change a few fields of a protobuf message at any depth, so that it stays a message mostly."""
    tree = to_tree(Message(content, 0, len(content)), form)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        fields, place = _any_field(chance, tree)
        _change_field(chance, fields, place)
    return to_bytes(tree)


def to_tree(message: Message, form: MessageSchema | None) -> Tree:
    """The fields by number, each with its kind; in a sound file, fields of one number are of one kind."""
    kinds = {key >> 3: key & 7 for key in message.keys}
    tree: Tree = []
    for number, values in message.fields.items():
        inner = form.fields[number].inner if form is not None and number in form.fields else None
        for value in values:
            if isinstance(value, int):
                tree.append([number, VARINT, value])
            elif inner is not None:
                tree.append([number, LEN, to_tree(Message(message.data, *value), inner)])
            else:
                tree.append([number, kinds[number], bytes(message.data[value[0] : value[1]])])
    return tree


def to_bytes(tree: Tree) -> bytes:
    parts = []
    for number, kind, value in tree:
        parts.append(varint(number << 3 | kind))
        if kind == VARINT:
            parts.append(varint(value))
        else:
            content = to_bytes(value) if isinstance(value, list) else value
            parts += [varint(len(content)), content] if kind == LEN else [content]
    return b"".join(parts)


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _changed(chance: Random, tree: Any) -> Any:
    """Go down some steps, and change what is there."""
    if isinstance(tree, dict) and tree and chance.random() < 0.85:
        key = chance.choice(sorted(tree))
        kind = chance.randrange(8)
        if kind == 0:
            del tree[key]
        elif kind == 1:
            tree[chance.choice((*TEXTS, *sorted(tree)))] = copy.deepcopy(tree[key])
        else:
            tree[key] = _changed(chance, tree[key])
        return tree
    if isinstance(tree, list) and tree and chance.random() < 0.7:
        place = chance.randrange(len(tree))
        tree[place] = _changed(chance, tree[place])
        return tree
    return any_value(chance)


def _deep(depth: int, lists: bool) -> Any:
    value: Any = 1
    for _ in range(min(depth, 400)):  # json.dumps goes no deeper
        value = [value] if lists else {"a": value}
    return value


def _any_field(chance: Random, tree: Tree) -> tuple[Tree, int]:
    """A field at any depth: deeper ones are many, and so are likely."""
    while True:
        place = chance.randrange(len(tree))
        value = tree[place][2]
        if not isinstance(value, list) or not value or chance.random() < 0.15:
            return tree, place
        tree = value


def _change_field(chance: Random, fields: Tree, place: int) -> None:
    number, kind, value = fields[place]
    what = chance.randrange(12)
    if what == 0:
        del fields[place]
    elif what == 1:
        fields.insert(chance.randrange(len(fields) + 1), copy.deepcopy(fields[place]))
    elif what == 2:
        other = chance.randrange(len(fields))
        fields[place], fields[other] = fields[other], fields[place]
    elif what == 3:
        fields[place] = [chance.choice((1, 2, 3, 5, 6, 7, 8, 9, 11, 13, 14, 20, 25, 99)), kind, value]
    elif what == 4:
        fields[place] = [number, VARINT, chance.choice(INTEGERS)]
    elif what == 5:
        fields[place] = [number, LEN, chance.choice((b"", chance.randbytes(20), chance.choice(TEXTS).encode()))]
    elif what == 6 and isinstance(value, list) and value:
        chance.shuffle(value)
    elif kind == VARINT:
        fields[place][2] = chance.choice((*INTEGERS, value + 1, value - 1, value ^ 1 << chance.randrange(40)))
    elif kind == FIXED32:
        fields[place][2] = struct.pack("<f", chance.choice(FLOATS))
    elif isinstance(value, bytes):
        fields[place][2] = _other_bytes(chance, value)


def _other_bytes(chance: Random, value: bytes) -> bytes:
    kind = chance.randrange(5)
    if kind == 0:
        return chance.choice(TEXTS).encode()
    if kind == 1:
        return chance.choice(OPERATORS).encode()
    if kind == 2 and value.isdigit():
        return str(chance.choice(INTEGERS)).encode()
    if kind == 3 and len(value) in (4, 8, 16, 32):
        return b"".join((chance.choice(INTEGERS) & 2**64 - 1).to_bytes(8, "little") for _ in range(4))[: len(value)]
    return damage(chance, value)
