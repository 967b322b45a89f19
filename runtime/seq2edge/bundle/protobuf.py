"""Read protobuf messages without generated classes, and check them against a schema.

A message is a sequence of fields. Each field has a key (its number and wire type), followed by a varint, by four or
eight bytes, or by a length and that many bytes: a string, packed numbers or another message.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

Data = bytes | mmap.mmap
Span = tuple[int, int]  # start and end of some bytes

VARINT, FIXED64, LEN, FIXED32 = 0, 1, 2, 5  # wire types
FIXED_BYTES = {FIXED64: 8, FIXED32: 4}
MAX_VARINT_BYTES = 10
CONTINUES = 0x80  # set in every byte of a varint but the last
MAX_VARINT = 2**64 - 1
MAX_FIELD_NUMBER = 2**29 - 1


class BrokenFileError(ValueError):
    """A file that is malformed or has content that is not allowed; the text says why."""


class Message:
    """A message in a range of bytes, parsed on first access and without copying the bytes."""

    def __init__(self, data: Data, start: int, end: int) -> None:
        self.data, self.start, self.end = data, start, end
        self._inner: dict[int, list[Message]] = {}
        self._fields: dict[int, list[int | Span]] | None = None
        self._keys: set[int] = set()

    def messages(self, number: int) -> list["Message"]:
        if number not in self._inner:
            self._inner[number] = [Message(self.data, *span) for span in self._spans(number)]
        return self._inner[number]

    def texts(self, number: int) -> list[str]:
        return [self.data[start:end].decode("utf-8", "replace") for start, end in self._spans(number)]

    def text(self, number: int) -> str:
        return self.texts(number)[-1] if number in self.fields else ""

    def contents(self, number: int) -> list[bytes]:
        return [self.data[start:end] for start, end in self._spans(number)]

    def integers(self, number: int) -> list[int]:
        """Return the integers of a field, whether packed or not."""
        integers: list[int] = []
        for value in self.fields.get(number, []):
            integers += [value] if isinstance(value, int) else _packed(self.data, *value)
        return integers

    def integer(self, number: int) -> int:
        return (self.integers(number) or [0])[-1]

    def lengths(self, number: int) -> list[int]:
        return [end - start for start, end in self._spans(number)]

    @property
    def fields(self) -> dict[int, list[int | Span]]:
        """The values by field number: an integer, or the span of the bytes."""
        if self._fields is None:
            self._fields = self._parse()
        return self._fields

    @property
    def keys(self) -> set[int]:
        """The distinct keys of all fields: eight times the number, plus the wire type."""
        return self._keys if self.fields else set()

    def _spans(self, number: int) -> list[Span]:
        values = self.fields.get(number)
        if values and number << 3 | VARINT in self._keys:
            raise BrokenFileError(f"its field {number} is an integer instead of a string or a message")
        return values or []  # type: ignore[return-value]

    def _parse(self) -> dict[int, list[int | Span]]:
        data, position, end, keys = self.data, self.start, self.end, self._keys
        fields: dict[int, list[int | Span]] = {}
        while position < end:
            key = data[position]
            position += 1
            if key >= CONTINUES:
                key, position = _varint(data, position - 1, end)
            value: int | Span
            if key & 7 == VARINT:
                value, position = _varint(data, position, end)
            else:
                length, position = _length(data, key & 7, position, end)
                value = (position, position + length)
                position += length
            number = key >> 3
            if position > end:
                raise BrokenFileError("it ends in the middle of a field")
            if not 0 < number <= MAX_FIELD_NUMBER:
                raise BrokenFileError(f"it has a field number {number}")
            keys.add(key)
            if number in fields:
                fields[number].append(value)
            else:
                fields[number] = [value]
        return fields


@dataclass(frozen=True, kw_only=True)
class Field:
    """What a field of a message may hold."""

    wire_type: int = LEN
    repeated: bool = False  # numbers may also be packed
    text: bool = False  # UTF-8
    inner: "MessageSchema | None" = None


@dataclass(frozen=True)
class MessageSchema:
    """The fields that a type of message may have, by number."""

    name: str
    fields: dict[int, Field]

    @cached_property
    def keys(self) -> frozenset[int]:
        """The keys of all allowed fields; a repeated field may also be packed."""
        packed = {number << 3 | LEN for number, field in self.fields.items() if field.repeated}
        return frozenset(number << 3 | field.wire_type for number, field in self.fields.items()) | packed


def check_schema(message: Message, schema: MessageSchema, *, max_fields: int) -> int:
    """Refuse a message that another parser might read differently, and return how many of ``max_fields`` are left.

    Parsers disagree on a repeated field where one is expected, on a wrong wire type and on unknown fields.
    """
    unexpected = message.keys - schema.keys
    if unexpected:
        number, wire_type = min(unexpected) >> 3, min(unexpected) & 7
        raise BrokenFileError(f"its {schema.name} has field {number} of wire type {wire_type}, which is not allowed")
    for number, values in message.fields.items():
        field = schema.fields[number]
        max_fields -= len(values)
        if max_fields < 0:
            raise BrokenFileError("it has too many fields")
        if len(values) > 1 and not field.repeated:
            raise BrokenFileError(f"its {schema.name} has field {number} {len(values)} times, but once is allowed")
        if field.inner is not None:
            for inner in message.messages(number):
                max_fields = check_schema(inner, field.inner, max_fields=max_fields)
        else:
            max_fields -= _check_content(message, number, field, schema)
    return max_fields


def _check_content(message: Message, number: int, field: Field, schema: MessageSchema) -> int:
    """Check that strings are UTF-8 and packed numbers complete; return how many fields the packed numbers count as."""
    if field.text:
        try:
            for text in message.contents(number):
                text.decode()
        except UnicodeDecodeError:
            raise BrokenFileError(f"its {schema.name} has a string that is not UTF-8") from None
    if field.wire_type == LEN:
        return 0
    packed = [end - start for start, end in (value for value in message.fields[number] if isinstance(value, tuple))]
    if field.wire_type in FIXED_BYTES and any(length % FIXED_BYTES[field.wire_type] for length in packed):
        raise BrokenFileError(f"its {schema.name} has packed numbers that are cut off")
    return sum(packed)


def _length(data: Data, wire_type: int, position: int, end: int) -> tuple[int, int]:
    if wire_type == LEN:
        return _varint(data, position, end)
    if wire_type in FIXED_BYTES:
        return FIXED_BYTES[wire_type], position
    raise BrokenFileError(f"it has a field of wire type {wire_type}, which is not supported")


def _varint(data: Data, position: int, end: int) -> tuple[int, int]:
    """Return the varint at a position (seven bits a byte, lowest first) and the position after it."""
    if position < end and data[position] < CONTINUES:  # fast path: most are small
        return data[position], position + 1
    value = 0
    for index in range(MAX_VARINT_BYTES):
        if position + index >= end:
            raise BrokenFileError("it ends in the middle of a field")
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < CONTINUES:
            if value > MAX_VARINT:
                break
            return value, position + index + 1
    raise BrokenFileError("it has an integer of more than 64 bits")


def _packed(data: Data, position: int, end: int) -> Iterator[int]:
    while position < end:
        value, position = _varint(data, position, end)
        yield value
