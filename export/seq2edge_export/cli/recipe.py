"""``seq2edge recipe``: draft a recipe for a state dict, or check one."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seq2edge.cli.click_options import grouped_help

if TYPE_CHECKING:
    from seq2edge_export.loaders.recipe.check import TextPair

EXAMPLES = {
    "model.pt": "write model.toml, with open questions where the tensors do not tell",
    "model.toml --check pairs.tsv": "compare with translations of your own program, lines of  source<TAB>expected",
}


@click.command(cls=grouped_help({}, EXAMPLES))
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Recipe to write; default: CHECKPOINT with .toml."
)
@click.option("--force", is_flag=True, help="Replace an existing recipe.")
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="PAIR|FILE",
    help="Translate with the recipe CHECKPOINT instead, and compare: a pair  source<TAB>expected, or a file of such "
    "lines; can be repeated.",
)
def command(checkpoint: Path, output: Path | None, force: bool, checks: tuple[str, ...]) -> None:
    """Draft a recipe for CHECKPOINT, a state dict with the tensor names of nn.Transformer.

    With --check, CHECKPOINT is a recipe, and the exit code is 1 if it gives other translations than expected: the
    number of heads, for one, cannot be seen in the tensors.
    """
    if checks:
        _check(checkpoint, checks, output)
    else:
        _draft(checkpoint, output or checkpoint.with_suffix(".toml"), force)


def _draft(checkpoint: Path, output: Path, force: bool) -> None:
    import tomllib

    from seq2edge.bundle.atomic_files import replaced_file
    from seq2edge.errors import UsageError
    from seq2edge_export.loaders.recipe.draft import draft_recipe
    from seq2edge_export.loaders.recipe.files import open_questions

    if output.exists() and not force:
        raise UsageError(f"{output} exists already; use --force to replace it")
    text = draft_recipe(checkpoint, output)
    with replaced_file(output) as path:
        path.write_text(text, encoding="utf-8")
    questions = ", ".join(open_questions(tomllib.loads(text)))
    click.echo(
        f"{output}: answer {questions}, check the lines with TODO, then  seq2edge recipe {output} --check PAIRS  and  "
        f"seq2edge export {output} BUNDLE"
    )


def _check(recipe: Path, checks: tuple[str, ...], output: Path | None) -> None:
    from seq2edge.errors import UsageError
    from seq2edge_export.loaders.recipe.check import check_recipe

    if recipe.suffix != ".toml" or output is not None:
        raise UsageError("--check compares a complete recipe: name its .toml file, without --output")
    pairs = [pair for given in checks for pair in _pairs(given)]
    check_recipe(recipe, pairs)
    click.echo(f"{recipe}: all {len(pairs)} translations are as expected")


def _pairs(given: str) -> "Iterator[TextPair]":
    from seq2edge.errors import DataError
    from seq2edge.files.lines import read_lines
    from seq2edge_export.loaders.recipe.check import TextPair

    lines = [given] if "\t" in given else [*read_lines(Path(given))]
    if not lines:
        raise DataError(f"{given} has no lines, but should have lines of  source<TAB>expected")
    for number, line in enumerate(lines, start=1):
        cells = line.split("\t")
        if len(cells) != 2:
            raise DataError(f"line {number} of {given} has {len(cells) - 1} tabs, but should be  source<TAB>expected")
        yield TextPair(*cells)
