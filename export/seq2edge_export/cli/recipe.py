"""``seq2edge recipe``: draft a recipe for a state dict."""

from pathlib import Path

import click


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Recipe to write; default: CHECKPOINT with .toml."
)
@click.option("--force", is_flag=True, help="Replace an existing recipe.")
def command(checkpoint: Path, output: Path | None, force: bool) -> None:
    """Draft a recipe for CHECKPOINT, a state dict with the tensor names of nn.Transformer."""
    import tomllib

    from seq2edge.bundle.atomic_files import replaced_file
    from seq2edge.errors import UsageError
    from seq2edge_export.loaders.recipe.draft import draft_recipe
    from seq2edge_export.loaders.recipe.files import open_questions

    output = output or checkpoint.with_suffix(".toml")
    if output.exists() and not force:
        raise UsageError(f"{output} exists already; use --force to replace it")
    text = draft_recipe(checkpoint, output)
    with replaced_file(output) as path:
        path.write_text(text, encoding="utf-8")
    questions = ", ".join(open_questions(tomllib.loads(text)))
    click.echo(f"{output}: answer {questions}, check the lines with TODO, then  seq2edge export {output} BUNDLE")
