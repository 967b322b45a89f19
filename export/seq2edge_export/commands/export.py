"""``seq2edge export``: turn a checkpoint into a bundle."""

from pathlib import Path
from typing import get_args

import click

from seq2edge.bundle import Dialect, Precision


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--precision",
    type=click.Choice(get_args(Precision)),
    default="fp32",
    show_default=True,
    help="How the weights are stored.",
)
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
    checkpoint: Path, bundle: Path, precision: Precision, dialect: Dialect, family: str, compare: bool, force: bool
) -> None:
    """Turn a checkpoint (a folder, a recipe, a model for CTranslate2) into a bundle that runs without PyTorch."""
    from seq2edge.progress import stages
    from seq2edge_export.export import export_bundle

    with stages() as say:
        made = export_bundle(
            checkpoint,
            bundle,
            precision=precision,
            dialect=dialect,
            family=family,
            compare=compare,
            force=force,
            say=say,
        )
    parameters = made.manifest.parameters
    click.echo(
        f"{bundle}: {made.size / 1e6:.1f} MB for {parameters / 1e6:.2f} million parameters "
        f"({made.size / parameters:.2f} bytes each)"
    )
