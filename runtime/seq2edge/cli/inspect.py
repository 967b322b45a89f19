"""``seq2edge inspect``: show the contents and cost of a bundle or an ONNX file."""

import json
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seq2edge.cli.click_options import signature_option

if TYPE_CHECKING:
    from seq2edge.cli.report import Facts, Rows

LENGTH = click.IntRange(min=1)


@click.command()
@click.argument("path", type=click.Path(path_type=Path), required=False, metavar="[BUNDLE | FILE.onnx]")
@click.option(
    "--source-length", type=LENGTH, default=25, show_default=True, help="Source tokens to compute the cost for."
)
@click.option(
    "--target-length", type=LENGTH, default=25, show_default=True, help="Target tokens to compute the cost for."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@signature_option
def command(
    path: Path | None, source_length: int, target_length: int, as_json: bool, require_signature: Path | None
) -> None:
    """Show the contents and cost of a bundle (if omitted, the default model) or the contents of an ONNX file."""
    from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
    from seq2edge.bundle.onnx_file import read_onnx
    from seq2edge.cli.report import bundle_facts, describe_bundle, describe_onnx, onnx_facts
    from seq2edge.errors import UsageError

    if path is not None and not path.is_dir() and (path.is_file() or path.suffix == ".onnx"):
        if require_signature is not None:
            raise UsageError(f"{path} is a single file, but only a bundle can be signed; name the folder of the bundle")
        file = read_onnx(path)
        _show(onnx_facts(file) if as_json else describe_onnx(file))
    else:
        bundle = load_bundle(path or DEFAULT_BUNDLE, require_signature=require_signature)
        describe = bundle_facts if as_json else describe_bundle
        _show(describe(bundle, source_length=source_length, target_length=target_length))


def _show(content: "Facts | Rows") -> None:
    """Print JSON, or a table of two columns that is wrapped to the width of the terminal."""
    if isinstance(content, dict):
        click.echo(json.dumps(content, indent=2))
        return
    names = max(len(name) for name, _ in content) + 2
    values = shutil.get_terminal_size().columns - names if sys.stdout.isatty() else sys.maxsize
    for name, value in content:
        lines = textwrap.wrap(_printable(value), max(values, 20), break_long_words=False, break_on_hyphens=False)
        click.echo(f"{name:<{names}}" + f"\n{'':<{names}}".join(lines))


def _printable(text: str) -> str:
    """Remove control characters: names come from files and must not control the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
