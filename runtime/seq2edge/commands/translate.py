"""``seq2edge translate``: arguments, a file or standard input to text."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import click

LINES_AT_ONCE = 512  # enough to find sentences of like length, few enough to answer soon


@click.command()
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("-m", "--model", type=click.Path(path_type=Path), help="Bundle folder; left out, the embedded model.")
@click.option("-i", "--input", "source", type=click.Path(path_type=Path), help="File to translate line by line.")
@click.option("-o", "--output", "target", type=click.Path(path_type=Path), help="File to write, once complete.")
@click.option("--num-beams", type=int, help="Beams of the search; 1 is greedy search.")
@click.option("--max-new-tokens", type=int, help="Longest translation in tokens.")
@click.option("--threads", type=int, help="CPU threads; left out, all that are allowed.")
def command(
    texts: tuple[str, ...],
    model: Path | None,
    source: Path | None,
    target: Path | None,
    num_beams: int | None,
    max_new_tokens: int | None,
    threads: int | None,
) -> None:
    """Translate TEXT, or a file, or standard input line by line."""
    from seq2edge.lines import read_lines, written_lines
    from seq2edge.translator import Translator

    translator = Translator(model, threads=threads)
    given = {"num_beams": num_beams, "max_new_tokens": max_new_tokens}
    changes = {name: value for name, value in given.items() if value is not None}
    lines: Iterable[str] = texts or read_lines(source)
    with written_lines(target) as write:
        for chunk in _chunks(lines):
            for result in translator.translate(chunk, **changes):
                write(result.text)


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    stream = iter(lines)
    while chunk := list(islice(stream, LINES_AT_ONCE)):
        yield chunk
