"""``seq2edge doctor``: which devices work here, and what to run how."""

import json
from dataclasses import asdict

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def command(as_json: bool) -> None:
    """Say what this machine can do: versions, CPU, memory, and every device that onnxruntime offers, each tried."""
    from seq2edge.doctor import describe, examine
    from seq2edge.progress import stages

    with stages() as say:
        health = examine(say=say)
    click.echo(json.dumps(asdict(health), indent=2, ensure_ascii=False) if as_json else describe(health))
