"""Settings written once: a dataclass field that is also a command-line option; needs nothing at import."""

from collections.abc import Callable
from dataclasses import MISSING, field, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def setting(default: Any, help: str) -> Any:
    """Declare a dataclass field with the help text of its command-line option."""
    return field(default=default, metadata={"help": help})


def options_of(cls: type) -> Callable[[F], F]:
    """Give a click command one option for every field of a settings dataclass."""

    def decorate(command: F) -> F:
        import click

        hints = get_type_hints(cls)
        for entry in reversed(fields(cls)):  # click lists options in reverse order of decoration
            names, keywords = _option(entry.name, hints[entry.name], entry.default)
            command = click.option(*names, help=entry.metadata["help"], **keywords)(command)
        return command

    return decorate


def take(cls: type[T], values: dict[str, Any]) -> T:
    """Build settings from a command's parsed options, taking them out of ``values``."""
    return cls(**{entry.name: values.pop(entry.name) for entry in fields(cls)})  # type: ignore[arg-type]


def _option(name: str, hint: Any, default: Any) -> tuple[list[str], dict[str, Any]]:
    import click

    if default is MISSING:
        raise TypeError(f"the setting {name!r} needs a default")
    flag = "--" + name.replace("_", "-")
    keywords: dict[str, Any] = {"default": default, "show_default": default not in (None, "")}
    if hint is bool:
        return [f"{flag}/--no-{flag[2:]}", name], keywords
    kind: Any
    if get_origin(hint) is Literal:
        kind = click.Choice(get_args(hint))
    else:
        kind = next((part for part in get_args(hint) if part is not type(None)), hint)
    return [flag, name], {**keywords, "type": kind}
