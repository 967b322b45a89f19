"""``seq2edge export``: turn a checkpoint into a bundle."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from seq2edge.bundle.bundle import Dialect
from seq2edge_graphs.cli.precision import explain, precision_options, quality_text

if TYPE_CHECKING:
    from seq2edge_graphs.quantize.config import QuantizationConfig


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.argument("bundle", type=click.Path(path_type=Path))
@precision_options("fp32", choices=("fp32", "fp16", "fp16-compute", "int8", "int8-blocks", "int4", "auto"))
@click.option(
    "--dialect",
    type=click.Choice(get_args(Dialect)),
    default="ort",
    show_default=True,
    help="Operators to use: onnxruntime's fused ones, or standard ONNX alone.",
)
@click.option("--family", default="auto", show_default=True, help="What CHECKPOINT is; auto recognises it.")
@click.option("--verify/--no-verify", "compare", default=True, help="Compare the bundle with the original model.")
@click.option("--force", is_flag=True, help="Replace a bundle that exists.")
def command(
    checkpoint: Path,
    bundle: Path,
    wish: "QuantizationConfig",
    dialect: Dialect,
    family: str,
    compare: bool,
    force: bool,
) -> None:
    """Turn a checkpoint folder, or a recipe, into a bundle folder that runs without PyTorch."""
    from seq2edge.cli.progress import stages
    from seq2edge_export.weight_offload import give_back_large_blocks

    give_back_large_blocks()
    from seq2edge_export.export import export_bundle  # which loads torch

    choices: list[Any] = []
    with stages() as say:
        made = export_bundle(
            checkpoint,
            bundle,
            wish=wish,
            dialect=dialect,
            family=family,
            compare=compare,
            force=force,
            say=say,
            explain=choices.append,
        )
    for choice in choices:
        click.echo(explain(choice))
    click.echo(f"{bundle}: {made.size_text}{quality_text(made.manifest.parity)}")
