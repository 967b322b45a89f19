"""``seq2edge quantize``: make a bundle in fewer bits from one in float32."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seq2edge_graphs.cli.precision import explain, precision_options, quality_text

if TYPE_CHECKING:
    from seq2edge_graphs.quantize.config import QuantizationConfig


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@precision_options("int8", choices=("fp16", "fp16-compute", "int8", "int8-blocks", "int4", "auto"))
@click.option("--verify/--no-verify", "compare", default=True, help="Compare the result with BUNDLE.")
@click.option("--force", is_flag=True, help="Replace a bundle that exists.")
def command(bundle: Path, output: Path, wish: "QuantizationConfig", compare: bool, force: bool) -> None:
    """Make OUTPUT, a bundle in fewer bits, from BUNDLE in float32; without PyTorch."""
    from seq2edge.cli.progress import stages
    from seq2edge_graphs.quantize.pipeline import quantize_bundle

    choices: list[Any] = []
    with stages() as say:
        made = quantize_bundle(bundle, output, wish, compare=compare, force=force, say=say, explain=choices.append)
    for choice in choices:
        click.echo(explain(choice))
    click.echo(f"{output}: {made.size_text}{quality_text(made.manifest.parity)}")
