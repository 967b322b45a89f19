"""``seq2edge inspect``: what a bundle holds and costs."""

from pathlib import Path

import click

LENGTH = click.IntRange(min=1)


@click.command()
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--source-length", type=LENGTH, default=25, show_default=True, help="Source tokens for the cost.")
@click.option("--target-length", type=LENGTH, default=25, show_default=True, help="Target tokens for the cost.")
def command(path: Path | None, source_length: int, target_length: int) -> None:
    """Show what a bundle holds and costs; left out, the embedded model."""
    from seq2edge.bundle import EMBEDDED, load_bundle
    from seq2edge.report import describe_bundle

    bundle = load_bundle(path or EMBEDDED)
    rows = describe_bundle(bundle, source_length=source_length, target_length=target_length)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name:<{width}}  {value}")
