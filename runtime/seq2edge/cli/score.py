"""``seq2edge score``: compute the log-probability of given translations."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seq2edge.cli.click_options import (
    NameChoice,
    device_options,
    grouped_help,
    report_device,
    signature_option,
    time_limit_option,
)

if TYPE_CHECKING:
    from seq2edge.results import Score
    from seq2edge.translator import Translator

GROUP_PAIRS = 1024
GROUPS = {"Device": "device provider_options strict_device threads workers require_signature time_limit"}
EXAMPLES = {
    "-i pairs.tsv -o scores.txt": "a file with lines of  source<TAB>target",
    "-m BUNDLE --format jsonl < pairs.tsv": "also the tokens and their log-probabilities",
}


@click.command(cls=grouped_help(GROUPS, EXAMPLES))
@click.option("-m", "--model", type=click.Path(path_type=Path), help="Bundle folder; if omitted, the default model.")
@click.option(
    "-i", "--input", "source", type=click.Path(path_type=Path), help="Pairs of texts; default: standard input."
)
@click.option("-o", "--output", "target", type=click.Path(path_type=Path), help="Output file; appears when complete.")
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@click.option(
    "--format", "form", type=NameChoice(("text", "jsonl")), default="text", help="Only scores, or all results."
)
@click.option("--source-lang", default="", help="Source language of a multilingual model.")
@click.option("--target-lang", default="", help="Target language of a multilingual model.")
@click.option("--errors", type=NameChoice(("strict", "replace")), default="strict", help="How to treat invalid UTF-8.")
@device_options()
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads per worker.")
@click.option("--workers", type=click.IntRange(min=1), help="Number of batches to score in parallel.")
@signature_option
@time_limit_option
def command(
    model: Path | None,
    source: Path | None,
    target: Path | None,
    force: bool,
    form: str,
    source_lang: str,
    target_lang: str,
    errors: Any,
    device: str,
    provider_options: tuple[str, ...],
    strict_device: bool,
    threads: int | None,
    workers: int | None,
    require_signature: Path | None,
    time_limit: float | None,
) -> None:
    """Print the log-probability of each translation in UTF-8 lines of  source<TAB>target."""
    from seq2edge.devices.cpu import share_cpus
    from seq2edge.devices.registry import parse_options
    from seq2edge.files.file_translation import in_groups
    from seq2edge.files.lines import check_distinct, check_new, input_path, read_lines, written_lines
    from seq2edge.translator import Translator

    workers, threads = share_cpus(workers, threads, many=True)
    source = input_path(source)
    check_distinct(source, target)
    check_new(target, force=force)
    groups = in_groups(read_lines(source, errors=errors), GROUP_PAIRS)
    translator = Translator(
        model,
        device=device,
        threads=threads,
        workers=workers,
        provider_options=parse_options(provider_options),
        strict_device=strict_device,
        require_signature=require_signature,
        time_limit=time_limit,
    )
    report_device(device, translator)
    with translator, written_lines(target) as write:
        for one in _scores(translator, groups, {"source_lang": source_lang, "target_lang": target_lang}):
            write(f"{one.score:.4f}" if form == "text" else json.dumps(asdict(one)))


def _scores(translator: "Translator", groups: Iterable[list[str]], languages: dict[str, str]) -> Iterator["Score"]:
    from seq2edge.errors import TextTooLongError

    done = 0
    for lines in groups:
        sources, targets = zip(*(_pair(number, line) for number, line in enumerate(lines, start=done + 1)), strict=True)
        try:
            yield from translator.score(sources, targets, **languages)
        except TextTooLongError as error:
            raise error.shifted(done) from None
        done += len(lines)


def _pair(number: int, line: str) -> tuple[str, str]:
    from seq2edge.errors import DataError

    cells = line.split("\t")
    if len(cells) != 2:
        tabs = "no tab" if len(cells) == 1 else f"{len(cells) - 1} tabs"
        raise DataError(f"line {number} has {tabs}, but should be  source<TAB>target")
    return cells[0], cells[1]
