"""Read frozen dataclasses from JSON objects, where a key too many is an error.

Settings written once: a dataclass field with the help text of its command-line option.
"""

import types
from collections.abc import Mapping
from dataclasses import MISSING, asdict, field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
MOST_PROBLEMS = 20  # in one error
LONGEST_VALUE = 80  # characters of a value in an error
LARGEST_INTEGER = 2**63  # that other programs can read


class ClosedError(ValueError):
    """The object does not fit the dataclass; the text names every key that is wrong."""


def read_closed(cls: type[T], value: object, *, where: str, complete: bool = False) -> T:
    """Build ``cls`` from a JSON object and name everything that does not fit in one error.

    ``complete`` asks for every key, also where the dataclass has a default.
    """
    problems: list[str] = []
    result = _read_object(cls, value, where, problems)
    if complete and not problems:
        _name_what_is_left_out(asdict(result), value, where, problems)  # type: ignore[call-overload]
    if problems:
        raise ClosedError(_joined(problems))
    return result


def read_fields(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Check values against the annotations of some fields, lists as tuples; all that do not fit are one error."""
    problems: list[str] = []
    hints = get_type_hints(cls)
    found = {name: _read_value(hints[name], value, name, problems) for name, value in values.items()}
    if problems:
        raise ClosedError(_joined(problems))
    return found


def _name_what_is_left_out(full: object, given: object, where: str, problems: list[str]) -> None:
    if not isinstance(full, Mapping) or not isinstance(given, Mapping):
        return
    for key, value in full.items():
        if key not in given:
            problems.append(f"{where} lacks the key {key!r}")
        else:
            _name_what_is_left_out(value, given[key], f"{where}.{key}", problems)


def _read_object(cls: type[T], value: object, where: str, problems: list[str]) -> T:
    if not isinstance(value, Mapping):
        problems.append(f"{where} should be an object, not {type(value).__name__}")
        return None  # type: ignore[return-value]
    hints = get_type_hints(cls)
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    problems += [f"{where} has the unknown key {short(key)}" for key in value if key not in known]
    found: dict[str, Any] = {}
    for name, entry in known.items():
        if name in value:
            found[name] = _read_value(hints[name], value[name], f"{where}.{name}", problems)
        elif entry.default is MISSING and entry.default_factory is MISSING:
            problems.append(f"{where} lacks the key {name!r}")
    if problems:
        return None  # type: ignore[return-value]
    try:
        return cls(**found)
    except ValueError as error:
        problems.append(f"{where}: {error}")
        return None  # type: ignore[return-value]


def _read_value(hint: Any, value: Any, where: str, problems: list[str]) -> Any:
    """Check one value against its annotation; JSON arrays become tuples."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _read_object(hint, value, where, problems)  # type: ignore[arg-type]
    if origin in (Union, types.UnionType):
        return _read_union(arguments, value, where, problems)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_read_value(arguments[0], item, where, problems) for item in value)
    if origin is dict and isinstance(value, Mapping):
        return {str(key): _read_value(arguments[1], item, f"{where}.{key}", problems) for key, item in value.items()}
    if origin is Literal and value in arguments and type(value) in map(type, arguments):
        return value
    if origin is None and _fits(hint, value):
        return float(value) if hint is float else value
    problems.append(f"{where} is {short(value)}, which is not {_describe(hint)}")
    return None


def _read_union(choices: tuple[Any, ...], value: Any, where: str, problems: list[str]) -> Any:
    for choice in choices:
        attempt: list[str] = []
        result = None if choice is type(None) and value is None else _read_value(choice, value, where, attempt)
        if not attempt:
            return result
    wanted = " or ".join(_describe(choice) for choice in choices)
    problems.append(f"{where} is {short(value)}, which is not {wanted}")
    return None


def _fits(hint: Any, value: Any) -> bool:
    if isinstance(value, bool):  # a bool is an int in Python, but not in JSON
        return hint is bool
    if isinstance(value, int) and abs(value) >= LARGEST_INTEGER:
        return False
    return isinstance(value, (int, float) if hint is float else hint)


def short(value: object) -> str:
    """A value as an error shows it."""
    shown = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return shown if len(shown) <= LONGEST_VALUE else f"{shown[:LONGEST_VALUE]}…"


def _joined(problems: list[str]) -> str:
    more = len(problems) - MOST_PROBLEMS
    return "; ".join([*problems[:MOST_PROBLEMS], *([f"and {more:,} more"] if more > 0 else [])])


def _describe(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if hint is type(None):
        return "null"
    if get_origin(hint) is tuple:
        return f"list of {_describe(get_args(hint)[0])}"
    return getattr(hint, "__name__", str(hint))


def setting(default: Any, help: str) -> Any:
    """Declare a field with a default and an explanation."""
    return field(default=default, metadata={"help": help})


def required(help: str) -> Any:
    """Declare a field that has no default."""
    return field(metadata={"help": help})
