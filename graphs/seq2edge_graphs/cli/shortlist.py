"""``seq2edge shortlist``: make a bundle that chooses among a few words for each text."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from seq2edge_graphs.shortlist.bundle import ShortlistBuilder

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--marian", type=FILE, help="Lists of Marian or Bergamot in binary form, lex.s2t.bin.")
@click.option("--learn", type=FILE, help="Sentence pairs to learn lists from, lines of  source<TAB>target.")
@click.option("--best", type=click.IntRange(min=1), help="With --learn: words for each source token.  [default: 50]")
@click.option("--frequent", type=click.IntRange(min=0), help="With --learn: words for all texts.  [default: 100]")
@click.option("--force", is_flag=True, help="Replace a bundle that exists.")
def command(
    bundle: Path,
    output: Path,
    marian: Path | None,
    learn: Path | None,
    best: int | None,
    frequent: int | None,
    force: bool,
) -> None:
    """Make OUTPUT, BUNDLE with a shortlist: translations have only words that it lists for the tokens of the text.

    That is faster, as the output layer has less to compute, and may change a translation.
    """
    from seq2edge.cli.progress import stages
    from seq2edge.cli.report import shortlist_text
    from seq2edge_graphs.shortlist.bundle import add_shortlist

    learned: list[int] = []
    make = _table(marian, learn, best, frequent, learned)
    with stages() as say:
        say("reading the lists" if learn is None else "learning the lists")
        made = add_shortlist(bundle, output, make, force=force)
    source = f", learned from {learned[0]:,} pairs" if learned else ""
    click.echo(f"{output}: {made.size_text}; shortlist of {shortlist_text(made)}{source}")


def _table(
    marian: Path | None, learn: Path | None, best: int | None, frequent: int | None, learned: list[int]
) -> "ShortlistBuilder":
    from seq2edge.errors import UsageError
    from seq2edge_graphs.shortlist.bundle import AlignmentData, from_alignments, from_marian

    if (marian is None) == (learn is None):
        raise UsageError("give either --marian or --learn: where the lists come from")
    if marian is not None:
        if best is not None or frequent is not None:
            raise UsageError("--best and --frequent go with --learn: Marian's file has lists of its own length")
        return from_marian(marian)
    assert learn is not None
    given = {name: value for name, value in (("best", best), ("frequent", frequent)) if value is not None}
    return from_alignments(AlignmentData(pairs=learn, **given), learned.append)
