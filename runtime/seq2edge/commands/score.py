"""``seq2edge score``: how likely the model finds given translations."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from seq2edge.command_options import Names

PAIRS_AT_ONCE = 1024


@click.command()
@click.option("-m", "--model", type=click.Path(path_type=Path), help="Bundle folder; left out, the embedded model.")
@click.option("-i", "--input", "source", type=click.Path(path_type=Path), help="Pairs; left out, standard input.")
@click.option("-o", "--output", "target", type=click.Path(path_type=Path), help="File to write, once complete.")
@click.option("--format", "form", type=Names(("text", "jsonl")), default="text", help="Scores alone, or all of it.")
@click.option("--errors", type=Names(("strict", "replace")), default="strict", help="Input that is not UTF-8.")
@click.option("--device", default="cpu", show_default=True, help="Where to compute: cpu or cuda.")
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads of a worker.")
@click.option("--workers", type=click.IntRange(min=1), help="Batches to score at the same time.")
def command(
    model: Path | None,
    source: Path | None,
    target: Path | None,
    form: str,
    errors: Any,
    device: Any,
    threads: int | None,
    workers: int | None,
) -> None:
    """Give the log-probability of each translation in lines of  source<TAB>target  in UTF-8."""
    from seq2edge.cpus import share_cpus
    from seq2edge.errors import TextTooLongError
    from seq2edge.file_translation import in_groups
    from seq2edge.lines import read_lines, written_lines
    from seq2edge.translator import Translator

    workers, threads = share_cpus(workers, threads, many=True)
    with Translator(model, device=device, threads=threads, workers=workers) as translator, written_lines(target) as write:
        done = 0
        for lines in in_groups(read_lines(source, errors=errors), PAIRS_AT_ONCE):
            pairs = [_pair(number, line) for number, line in enumerate(lines, start=done + 1)]
            try:
                scores = translator.score([pair[0] for pair in pairs], [pair[1] for pair in pairs])
            except TextTooLongError as error:
                raise error.behind(done) from None
            for one in scores:
                write(f"{one.score:.4f}" if form == "text" else json.dumps(asdict(one)))
            done += len(lines)


def _pair(number: int, line: str) -> tuple[str, str]:
    from seq2edge.errors import DataError

    source, tab, target = line.partition("\t")
    if not tab:
        raise DataError(f"line {number} has no tab: every line should be  source<TAB>target")
    return source, target
