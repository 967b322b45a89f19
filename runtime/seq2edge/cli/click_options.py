"""Options that commands share: those of a settings dataclass, of devices, and of signatures."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import click

if TYPE_CHECKING:
    from seq2edge.translator import Translator

    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # not generic in older releases of click

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
DEVICE_HELP = "cpu, cuda, tensorrt, openvino, webgpu, coreml, directml, or auto for the fastest that works."
PROVIDER_HELP = "Option of the execution provider, NAME=VALUE; can be repeated."
STRICT_HELP = "Fail if any part of the model would not run on the device."
SIGNATURE_VARIABLE = "SEQ2EDGE_REQUIRE_SIGNATURE"


class NameChoice(ParamType):
    """A choice of values that need not be strings: ``False`` is written ``false``."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = {str(value).lower(): value for value in values}
        self.name = "name"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(self.values)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value).lower() not in self.values:
            self.fail(f"{value!r} is not one of {', '.join(self.values)}.", param, ctx)
        return self.values[str(value).lower()]


class TokenIds(ParamType):
    """Token ids separated by commas."""

    name = "ids"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of token ids separated by commas.", param, ctx)


def options_of(cls: type, *, unset: bool = False) -> Callable[[F], F]:
    """Decorate a click command with one option for every field of a settings dataclass.

    With ``unset``, defaults come from elsewhere, and options that are not given are None.
    """

    def decorate(command: F) -> F:
        hints, flags = get_type_hints(cls), [_flag(entry.name) for entry in fields(cls)]
        for entry in reversed(fields(cls)):  # click lists options in reverse order of decoration
            default = None if unset else entry.default
            if default is MISSING:
                raise TypeError(f"the setting {entry.name!r} needs a default")
            names, keywords = _option(entry.name, hints[entry.name])
            shown = not unset and default not in (None, "")
            help = as_options(entry.metadata["help"], flags)
            command = click.option(*names, help=help, default=default, show_default=shown, **keywords)(command)
        return command

    return decorate


def signature_option(command: F) -> F:
    """Decorate a command that runs a bundle with --require-signature."""
    return click.option(
        "--require-signature",
        type=click.Path(path_type=Path),
        envvar=SIGNATURE_VARIABLE,
        callback=_check_signature_variable,
        metavar="PUBLIC_KEY",
        help="Refuse a bundle that is not signed with this key.",
    )(command)


def time_limit_option(command: F) -> F:
    """Decorate a command that runs a bundle with --time-limit."""
    return click.option(
        "--time-limit",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Give up when a group of lines, or all texts on the command line, take longer.",
    )(command)


def _check_signature_variable(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Refuse an empty variable, which click takes for an unset one, so that a mistake does not disable the check."""
    if value is None and os.environ.get(SIGNATURE_VARIABLE) == "":
        raise click.UsageError(f"{SIGNATURE_VARIABLE} is empty: set it to a public key, or unset it.", ctx)
    return value


def grouped_help(groups: Mapping[str, type | str], examples: Mapping[str, str]) -> type[click.Command]:
    """Return a command class whose help has sections of options, and examples with what they do.

    The options of a section are the fields of a settings dataclass, or named by their parameters.
    """
    headings = {name: heading for heading, options in groups.items() for name in _names(options)}

    class GroupedHelp(click.Command):
        def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            for heading in ("Options", *groups):
                options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
                chosen = [option for option in options if headings.get(option.name or "", "Options") == heading]
                records = [option.get_help_record(ctx) for option in chosen]
                with formatter.section(heading):
                    formatter.write_dl([record for record in records if record])

        def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            with formatter.section("Examples"):
                for example, meaning in examples.items():
                    formatter.write(f"{'':{formatter.current_indent}}# {meaning}\n")
                    formatter.write(f"{'':{formatter.current_indent}}seq2edge {ctx.info_name} {example}\n")

        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            try:
                return super().parse_args(ctx, args)
            except click.NoSuchOption as error:
                if error.possibilities or "texts" not in (param.name for param in self.params):
                    raise
                advice = "Write -- before texts that begin with a dash."
                raise click.UsageError(f"{error.format_message()} {advice}", ctx) from None

    return GroupedHelp


def _names(options: type | str) -> list[str]:
    return options.split() if isinstance(options, str) else [field.name for field in fields(options)]


def as_options(text: str, flags: Iterable[str]) -> str:
    """Write the names of settings in a text of the API as options of the command line: num_beams as --num-beams."""
    for flag in flags:
        name = flag[2:].replace("-", "_")
        if name not in text:  # mostly, and compiling the patterns takes a while
            continue
        text = re.sub(rf'\b{name}="(\w+)"', rf"{flag} \1", text)
        if "_" in name:
            text = re.sub(rf"(?<![\w./'\"-]){name}(?=$|[ ,;:)])", flag, text)
        else:  # also an ordinary word, unless it is the subject
            text = re.sub(rf"(^|[(,;] ?){name}(?= is | was )", rf"\1{flag}", text)
    return text


def take(cls: type[T], values: dict[str, Any]) -> T:
    """Build settings from the parsed options of a command, removing them from ``values``."""
    return cls(**{entry.name: values.pop(entry.name) for entry in fields(cls)})  # type: ignore[arg-type]


def take_set(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that were given on the command line; remove all settings from ``values``."""
    settings = {entry.name: values.pop(entry.name) for entry in fields(cls)}
    return {name: value for name, value in settings.items() if value not in (None, ())}


def _option(name: str, hint: Any) -> tuple[list[str], dict[str, Any]]:
    flag = _flag(name)
    types = [one for one in _alternatives(hint) if one is not type(None)]
    if types == [bool]:
        return [f"{flag}/--no-{flag[2:]}", name], {}
    if get_origin(types[0]) is Literal:
        return [flag, name], {"type": NameChoice(get_args(types[0]))}
    if tuple[tuple[int, ...], ...] in types:
        return [flag, name], {"type": TokenIds(), "multiple": True}
    if tuple[int, ...] in types:
        return [flag, name], {"type": TokenIds()}
    return [flag, name], {"type": types[0]}


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def device_options(*, several: bool = False) -> Callable[[F], F]:
    """Decorate a command with --device, which can be repeated if ``several``, and the options of devices."""

    def decorate(command: F) -> F:
        many: dict[str, Any] = {"multiple": True, "default": ("cpu",)} if several else {"default": "cpu"}
        command = click.option("--strict-device", is_flag=True, help=STRICT_HELP)(command)
        command = click.option("--provider-option", "provider_options", multiple=True, help=PROVIDER_HELP)(command)
        return click.option(
            "--device", "devices" if several else "device", show_default=True, help=DEVICE_HELP, **many
        )(command)

    return decorate


def report_device(device: str, translator: "Translator") -> None:
    """Report which device was chosen for auto, and which nodes run on other providers."""
    if device == "auto":
        click.echo(f"Note: {translator.device_config.device} is the fastest device that works here", err=True)
    for note in translator.notes:
        click.echo(f"Note: {note}", err=True)
