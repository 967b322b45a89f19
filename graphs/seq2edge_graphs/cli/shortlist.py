"""``seq2edge shortlist``: add a shortlist to a bundle."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from seq2edge_graphs.shortlist.bundle import ShortlistBuilder

FILE = click.Path(path_type=Path)
BEST = "With --learn: target tokens per source token.  [default: 50]"
FREQUENT = "With --learn: target tokens for every text.  [default: 100]"


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--marian", type=FILE, help="Binary shortlist of Marian or Bergamot, lex.s2t.bin.")
@click.option("--learn", type=FILE, help="Sentence pairs to learn the lists from, lines of  source<TAB>target.")
@click.option("--best", type=click.IntRange(min=1), help=BEST)
@click.option("--frequent", type=click.IntRange(min=0), help=FREQUENT)
@click.option("--force", is_flag=True, help="Replace an existing bundle.")
def command(
    bundle: Path,
    output: Path,
    marian: Path | None,
    learn: Path | None,
    best: int | None,
    frequent: int | None,
    force: bool,
) -> None:
    """Copy BUNDLE to OUTPUT with a shortlist: the target tokens that each source token may be translated to.

    Translating is faster, since the output layer has less to compute. Translations may change.
    """
    from seq2edge.cli.progress import stages
    from seq2edge.cli.report import shortlist_text
    from seq2edge_graphs.shortlist.bundle import add_shortlist

    learned: list[int] = []
    build = _builder(marian, learn, best, frequent, learned)
    with stages() as progress:
        progress("reading the lists" if learn is None else "learning the lists")
        result = add_shortlist(bundle, output, build, force=force)
    source = f", learned from {learned[0]:,} pairs" if learned else ""
    click.echo(f"{output}: {result.size_text}; shortlist of {shortlist_text(result)}{source}")


def _builder(
    marian: Path | None, learn: Path | None, best: int | None, frequent: int | None, learned: list[int]
) -> "ShortlistBuilder":
    from seq2edge.errors import UsageError
    from seq2edge_graphs.shortlist.bundle import AlignmentData, from_alignments, from_marian

    if (marian is None) == (learn is None):
        raise UsageError("give either --marian or --learn as the source of the lists")
    if marian is not None:
        if best is not None or frequent is not None:
            raise UsageError(
                "--best and --frequent are only used with --learn: the lists of Marian have their own length"
            )
        return from_marian(marian)
    assert learn is not None
    sizes = {name: value for name, value in (("best", best), ("frequent", frequent)) if value is not None}
    return from_alignments(AlignmentData(pairs=learn, **sizes), learned.append)
