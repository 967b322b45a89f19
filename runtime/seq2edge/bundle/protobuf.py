"""Read protobuf messages from their bytes, and refuse what is not as it should be.

A message is a row of fields, and a field is a number that says which one it is, followed by an integer, by four or
eight bytes, or by a length and that many bytes, which are a text, packed numbers or again a message.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

Data = bytes | mmap.mmap
Stretch = tuple[int, int]  # where bytes begin and end

VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5  # kinds of fields
FIXED_BYTES = {EIGHT: 8, FOUR: 4}
VARINT_BYTES = 10  # of the longest
MORE = 0x80  # a byte that is not the last of its integer
LARGEST = 2**64 - 1
LARGEST_NUMBER = 2**29 - 1  # of a field


class BrokenFileError(ValueError):
    """Bytes that are not what they should be; the text says why."""


class Message:
    """A stretch of bytes that is a message; its fields are found once, when the first is asked for, never copied."""

    def __init__(self, data: Data, start: int, end: int) -> None:
        self.data, self.start, self.end = data, start, end
        self._inner: dict[int, list[Message]] = {}
        self._found: dict[int, list[int | Stretch]] | None = None
        self._kinds: set[int] = set()

    def messages(self, number: int) -> list["Message"]:
        if number not in self._inner:
            self._inner[number] = [Message(self.data, *stretch) for stretch in self._stretches(number)]
        return self._inner[number]

    def texts(self, number: int) -> list[str]:
        return [self.data[start:end].decode("utf-8", "replace") for start, end in self._stretches(number)]

    def text(self, number: int) -> str:
        return self.texts(number)[-1] if number in self.fields else ""

    def contents(self, number: int) -> list[bytes]:
        return [self.data[start:end] for start, end in self._stretches(number)]

    def integers(self, number: int) -> list[int]:
        """Integers one by one or packed into stretches, which mean the same."""
        found: list[int] = []
        for value in self.fields.get(number, []):
            found += [value] if isinstance(value, int) else _packed(self.data, *value)
        return found

    def integer(self, number: int) -> int:
        return (self.integers(number) or [0])[-1]

    def lengths(self, number: int) -> list[int]:
        return [end - start for start, end in self._stretches(number)]

    @property
    def fields(self) -> dict[int, list[int | Stretch]]:
        """Integers, and where the stretches of bytes begin and end, by the fields' numbers."""
        if self._found is None:
            self._found = self._parse()
        return self._found

    @property
    def kinds(self) -> set[int]:
        """Which fields there are, and of which kinds, as keys: eight times the number, and the kind."""
        return self._kinds if self.fields else set()

    def _stretches(self, number: int) -> list[Stretch]:
        found = self.fields.get(number)
        if found and number << 3 | VARINT in self._kinds:
            raise BrokenFileError(f"its field {number} is an integer where text or a message should be")
        return found or []  # type: ignore[return-value]

    def _parse(self) -> dict[int, list[int | Stretch]]:
        data, place, end, kinds = self.data, self.start, self.end, self._kinds
        found: dict[int, list[int | Stretch]] = {}
        while place < end:
            key = data[place]
            place += 1
            if key >= MORE:
                key, place = _varint(data, place - 1, end)
            value: int | Stretch
            if key & 7 == VARINT:
                value, place = _varint(data, place, end)
            else:
                length, place = _length(data, key & 7, place, end)
                value = (place, place + length)
                place += length
            number = key >> 3
            if place > end:
                raise BrokenFileError("it ends in the middle of a field")
            if not 0 < number <= LARGEST_NUMBER:
                raise BrokenFileError(f"it has a field number {number}")
            kinds.add(key)
            if number in found:
                found[number].append(value)
            else:
                found[number] = [value]
        return found


@dataclass(frozen=True, kw_only=True)
class Field:
    """What a field of a form may be."""

    kind: int = LENGTH
    repeated: bool = False  # numbers also packed
    text: bool = False  # UTF-8
    inner: "Form | None" = None


@dataclass(frozen=True)
class Form:
    """A kind of message and the fields that it may have, by number."""

    name: str
    fields: dict[int, Field]

    @cached_property
    def keys(self) -> frozenset[int]:
        """Eight times the number, and the kind, of every field that may be; several numbers may also be packed."""
        packed = {number << 3 | LENGTH for number, field in self.fields.items() if field.repeated}
        return frozenset(number << 3 | field.kind for number, field in self.fields.items()) | packed


def check_form(message: Message, form: Form, *, most: int) -> int:
    """Refuse a message that another reader might understand differently; at most ``most`` fields are looked at.

    Readers agree neither on a field that comes twice where one is expected, nor on one of the wrong kind, nor on one
    that they do not know. Gives how many of the fields are left.
    """
    strange = message.kinds - form.keys
    if strange:
        number, kind = min(strange) >> 3, min(strange) & 7
        raise BrokenFileError(f"a {form.name} has a field {number} of the kind {kind}, which is not used here")
    for number, values in message.fields.items():
        field = form.fields[number]
        most -= len(values)
        if most < 0:
            raise BrokenFileError("it has more fields than any that is used here")
        if len(values) > 1 and not field.repeated:
            raise BrokenFileError(f"a {form.name} has the field {number} {len(values)} times")
        if field.inner is not None:
            for inner in message.messages(number):
                most = check_form(inner, field.inner, most=most)
        else:
            most -= _check_content(message, number, field, form)
    return most


def _check_content(message: Message, number: int, field: Field, form: Form) -> int:
    """Texts must be UTF-8, and packed numbers whole; gives how many more fields these count for."""
    if field.text:
        try:
            for text in message.contents(number):
                text.decode()
        except UnicodeDecodeError:
            raise BrokenFileError(f"a {form.name} has a text that is not UTF-8") from None
    if field.kind == LENGTH:
        return 0
    packed = [end - start for start, end in (value for value in message.fields[number] if isinstance(value, tuple))]
    if field.kind in FIXED_BYTES and any(length % FIXED_BYTES[field.kind] for length in packed):
        raise BrokenFileError(f"a {form.name} has numbers that are cut off")
    return sum(packed)


def _length(data: Data, kind: int, place: int, end: int) -> tuple[int, int]:
    if kind == LENGTH:
        return _varint(data, place, end)
    if kind in FIXED_BYTES:
        return FIXED_BYTES[kind], place
    raise BrokenFileError(f"it has a field of the kind {kind}, which is not used any more")


def _varint(data: Data, place: int, end: int) -> tuple[int, int]:
    """An integer in groups of seven bits, the lowest first, and the place behind it."""
    if place < end and data[place] < MORE:  # most are small
        return data[place], place + 1
    value = 0
    for index in range(VARINT_BYTES):
        if place + index >= end:
            raise BrokenFileError("it ends in the middle of a field")
        byte = data[place + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < MORE:
            if value > LARGEST:
                break
            return value, place + index + 1
    raise BrokenFileError("it has an integer of more than 64 bits")


def _packed(data: Data, place: int, end: int) -> Iterator[int]:
    while place < end:
        value, place = _varint(data, place, end)
        yield value
