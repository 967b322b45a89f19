"""The options that say where to compute, as commands have them; needs click."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from seq2edge.translator import Translator

F = TypeVar("F", bound=Callable[..., Any])
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
        click.echo(f"Note: {translator.place.device} is the fastest device that works here", err=True)
    for note in translator.notes:
        click.echo(f"Note: {note}", err=True)
