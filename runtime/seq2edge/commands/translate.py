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
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads; left out, all that are allowed.")
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
    from seq2edge.errors import TextTooLongError, UsageError
    from seq2edge.lines import read_lines, written_lines
    from seq2edge.translator import Translator

    if texts and source is not None:
        raise UsageError("give either texts or --input, not both")
    translator = Translator(model, threads=threads)
    given = {"num_beams": num_beams, "max_new_tokens": max_new_tokens}
    changes = {name: value for name, value in given.items() if value is not None}
    done, cut = 0, 0
    with written_lines(target) as write:
        for chunk in _chunks(texts or read_lines(source)):
            try:
                results = translator.translate(chunk, **changes)
            except TextTooLongError as error:
                raise error.behind(done) from None
            for result in results:
                write(result.text)
            done += len(chunk)
            cut += sum(not result.ended for result in results)
    if cut:
        click.echo(f"Warning: {cut} of {done} translations were cut at the length limit (--max-new-tokens)", err=True)


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    stream = iter(lines)
    while chunk := list(islice(stream, LINES_AT_ONCE)):
        yield chunk
