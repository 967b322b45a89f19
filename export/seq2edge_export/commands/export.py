"""``seq2edge export``: turn a checkpoint into a bundle."""

from pathlib import Path

import click


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--precision",
    type=click.Choice(["fp32", "fp16", "int8"]),
    default="fp32",
    show_default=True,
    help="How the weights are stored.",
)
@click.option(
    "--dialect",
    type=click.Choice(["ort", "portable"]),
    default="ort",
    show_default=True,
    help="Operators to use: onnxruntime's fused ones, or standard ONNX alone.",
)
@click.option(
    "--family",
    type=click.Choice(["auto", "recipe", "seq2edge"]),
    default="auto",
    show_default=True,
    help="What CHECKPOINT is: a recipe (.toml) for a state dict, or a folder of seq2edge train.",
)
@click.option("--verify/--no-verify", "compare", default=True, help="Compare the bundle with the original model.")
@click.option("--force", is_flag=True, help="Replace a bundle that exists.")
def command(
    checkpoint: Path, bundle: Path, precision: str, dialect: str, family: str, compare: bool, force: bool
) -> None:
    """Turn a checkpoint folder, or a recipe, into a bundle folder that runs without PyTorch."""
    from seq2edge.progress import stages
    from seq2edge_export.export import export_bundle

    with stages() as say:
        made = export_bundle(
            checkpoint,
            bundle,
            precision=precision,  # type: ignore[arg-type]
            dialect=dialect,  # type: ignore[arg-type]
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
