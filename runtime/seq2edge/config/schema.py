"""Read dataclasses from JSON strictly, and declare settings with their help text."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, asdict, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
MAX_PROBLEMS = 20  # in one error
MAX_REPR_LENGTH = 80  # characters of a value in an error
INTEGER_LIMIT = 2**63  # other programs cannot read larger ones


class SchemaError(ValueError):
    """A JSON object does not match a dataclass; the text lists every problem."""


def read_strict(cls: type[T], value: object, *, where: str, complete: bool = False) -> T:
    """Build ``cls`` from a JSON object; unknown or missing keys and wrong types are listed in one error.

    ``complete`` requires every key, even if the dataclass has a default.
    """
    problems: list[str] = []
    result = _read_object(cls, value, where, problems)
    if complete and not problems:
        _add_missing_keys(asdict(result), value, where, problems)  # type: ignore[call-overload]
    if problems:
        raise SchemaError(_join_problems(problems))
    return result


def read_fields(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Check values against the annotations of the fields of these names, and return them with lists as tuples."""
    problems: list[str] = []
    hints = _hints(cls)
    result = {name: _read_value(hints[name], value, name, problems) for name, value in values.items()}
    if problems:
        raise SchemaError(_join_problems(problems))
    return result


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _add_missing_keys(expected: object, value: object, where: str, problems: list[str]) -> None:
    if not isinstance(expected, Mapping) or not isinstance(value, Mapping):
        return
    for key, inner in expected.items():
        if key not in value:
            problems.append(f"{where} lacks the key {key!r}")
        else:
            _add_missing_keys(inner, value[key], f"{where}.{key}", problems)


def _read_object(cls: type[T], value: object, where: str, problems: list[str]) -> T:
    if not isinstance(value, Mapping):
        problems.append(f"{where} should be an object, not {type(value).__name__}")
        return None  # type: ignore[return-value]
    hints = _hints(cls)  # type: ignore[arg-type]
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    problems += [f"{where} has the unknown key {short_repr(key)}" for key in value if key not in known]
    arguments: dict[str, Any] = {}
    for name, entry in known.items():
        if name in value:
            arguments[name] = _read_value(hints[name], value[name], f"{where}.{name}", problems)
        elif entry.default is MISSING and entry.default_factory is MISSING:
            problems.append(f"{where} lacks the key {name!r}")
    if problems:
        return None  # type: ignore[return-value]
    try:
        return cls(**arguments)
    except ValueError as error:
        problems.append(f"{where}: {error}")
        return None  # type: ignore[return-value]


def _read_value(hint: Any, value: Any, where: str, problems: list[str]) -> Any:
    """Check a value against its annotation, and return it with arrays as tuples."""
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
    if origin is None and _is_instance(hint, value):
        return float(value) if hint is float else value
    problems.append(f"{where} is {short_repr(value)}, which is not {_describe(hint)}")
    return None


def _read_union(choices: tuple[Any, ...], value: Any, where: str, problems: list[str]) -> Any:
    for choice in choices:
        attempt: list[str] = []
        result = None if choice is type(None) and value is None else _read_value(choice, value, where, attempt)
        if not attempt:
            return result
    expected = " or ".join(_describe(choice) for choice in choices)
    problems.append(f"{where} is {short_repr(value)}, which is not {expected}")
    return None


def _is_instance(hint: Any, value: Any) -> bool:
    if isinstance(value, bool):  # a bool is an int in Python, but not in JSON
        return hint is bool
    if isinstance(value, int) and abs(value) >= INTEGER_LIMIT:
        return False
    return isinstance(value, (int, float) if hint is float else hint)


def short_repr(value: object) -> str:
    """Return the repr of a value for an error message, shortened if necessary."""
    shown = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return shown if len(shown) <= MAX_REPR_LENGTH else f"{shown[:MAX_REPR_LENGTH]}…"


def _join_problems(problems: list[str]) -> str:
    more = len(problems) - MAX_PROBLEMS
    return "; ".join([*problems[:MAX_PROBLEMS], *([f"and {more:,} more"] if more > 0 else [])])


def _describe(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if hint is type(None):
        return "null"
    if get_origin(hint) is tuple:
        return f"list of {_describe(get_args(hint)[0])}"
    return getattr(hint, "__name__", str(hint))


def setting(default: Any, help: str) -> Any:
    """Declare a field with a default and the help text of its command-line option."""
    return field(default=default, metadata={"help": help})


def required(help: str) -> Any:
    """Declare a field without a default."""
    return field(metadata={"help": help})
