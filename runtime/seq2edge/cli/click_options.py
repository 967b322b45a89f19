"""Settings dataclasses as options of a command.

The options that say where to compute, as commands have them.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import click

if TYPE_CHECKING:
    from seq2edge.translator import Translator

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


if TYPE_CHECKING:
    Kind = click.ParamType[Any]
else:
    Kind = click.ParamType  # older releases of click cannot say of what


class NameChoice(Kind):
    """One of a few values that are not all strings, by name: ``False`` is written ``false``."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = {str(value).lower(): value for value in values}
        self.name = "name"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(self.values)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value).lower() not in self.values:
            self.fail(f"{value!r} is not one of {', '.join(self.values)}.", param, ctx)
        return self.values[str(value).lower()]


class TokenIds(Kind):
    """One token id or several with commas between."""

    name = "ids"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a token id, or several with commas between.", param, ctx)


def options_of(cls: type, *, unset: bool = False) -> Callable[[F], F]:
    """Give a click command one option for every field of a settings dataclass.

    ``unset``: the defaults come from elsewhere, and an option that is left out is None.
    """

    def decorate(command: F) -> F:
        hints = get_type_hints(cls)
        for entry in reversed(fields(cls)):  # click lists options in reverse order of decoration
            default = None if unset else entry.default
            if default is MISSING:
                raise TypeError(f"the setting {entry.name!r} needs a default")
            names, keywords = _option(entry.name, hints[entry.name])
            shown = not unset and default not in (None, "")
            help = entry.metadata["help"]
            command = click.option(*names, help=help, default=default, show_default=shown, **keywords)(command)
        return command

    return decorate


def signature_option(command: F) -> F:
    """The option that every command has which runs a bundle."""
    return click.option(
        "--require-signature",
        type=click.Path(path_type=Path),
        envvar="SEQ2EDGE_REQUIRE_SIGNATURE",
        metavar="PUBLIC_KEY",
        help="Use a bundle only if the owner of this key has signed it.",
    )(command)


def grouped_help(groups: Mapping[str, type]) -> type[click.Command]:
    """A kind of command that shows the options of each settings dataclass under a heading of its own."""
    headings = {field.name: heading for heading, settings in groups.items() for field in fields(settings)}

    class GroupedHelp(click.Command):
        def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            for heading in ("Options", *groups):
                options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
                chosen = [option for option in options if headings.get(option.name or "", "Options") == heading]
                records = [option.get_help_record(ctx) for option in chosen]
                with formatter.section(heading):
                    formatter.write_dl([record for record in records if record])

    return GroupedHelp


def take(cls: type[T], values: dict[str, Any]) -> T:
    """Build settings from a command's parsed options, taking them out of ``values``."""
    return cls(**{entry.name: values.pop(entry.name) for entry in fields(cls)})  # type: ignore[arg-type]


def take_set(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    """Those of the settings that were given on the command line; all of them are taken out of ``values``."""
    found = {entry.name: values.pop(entry.name) for entry in fields(cls)}
    return {name: value for name, value in found.items() if value not in (None, ())}


def _option(name: str, hint: Any) -> tuple[list[str], dict[str, Any]]:
    flag = "--" + name.replace("_", "-")
    kinds = [kind for kind in _alternatives(hint) if kind is not type(None)]
    if kinds == [bool]:
        return [f"{flag}/--no-{flag[2:]}", name], {}
    if get_origin(kinds[0]) is Literal:
        return [flag, name], {"type": NameChoice(get_args(kinds[0]))}
    if tuple[tuple[int, ...], ...] in kinds:
        return [flag, name], {"type": TokenIds(), "multiple": True}
    if tuple[int, ...] in kinds:
        return [flag, name], {"type": TokenIds()}
    return [flag, name], {"type": kinds[0]}


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


HELP = "Where to compute: cpu, cuda, tensorrt, openvino, webgpu, coreml, directml, or auto for the fastest that works."
OPTION = "Setting of the device's provider in onnxruntime, NAME=VALUE; may be given several times."
STRICT = "Fail if any part of the model would be computed elsewhere than on the device."


def device_options(*, several: bool = False) -> Callable[[F], F]:
    """Give a command --device, --provider-option and --strict-device; ``several`` devices may be named."""

    def decorate(command: F) -> F:
        many: dict[str, Any] = {"multiple": True, "default": ("cpu",)} if several else {"default": "cpu"}
        command = click.option("--strict-device", is_flag=True, help=STRICT)(command)
        command = click.option("--provider-option", "provider_options", multiple=True, help=OPTION)(command)
        return click.option("--device", "devices" if several else "device", show_default=True, help=HELP, **many)(
            command
        )

    return decorate


def tell_device(asked: str, translator: "Translator") -> None:
    """Say which device computes where it is not plain: chosen by itself, or helped by another."""
    if asked == "auto":
        click.echo(f"Note: {translator.device_config.device} is the fastest device that works here", err=True)
    for note in translator.notes:
        click.echo(f"Note: {note}", err=True)
