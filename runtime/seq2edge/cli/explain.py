"""``seq2edge explain``: show on a page what a model does with a sentence."""

from pathlib import Path
from typing import Any

import click

from seq2edge.cli.click_options import grouped_help, options_of, signature_option, take_set
from seq2edge.config.generation import GenerationOptions

GROUPS: dict[str, type | str] = {"Search": GenerationOptions, "Device": "threads require_signature"}
EXAMPLES = {
    '"Good morning." -o report.html': "the default model",
    '"Good morning." -o report.html -m FP32 --beside INT8': "two bundles next to each other",
}
SPLITS = ("auto", "sentences", "none")


@click.command(cls=grouped_help(GROUPS, EXAMPLES))
@click.argument("text")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="HTML file of the page.")
@click.option("-m", "--model", type=click.Path(path_type=Path), help="Bundle folder; if omitted, the default model.")
@click.option("--beside", type=click.Path(path_type=Path), metavar="BUNDLE", help="Show another bundle next to it.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--split", type=click.Choice(SPLITS), default="auto", help="As in seq2edge translate.")
@click.option("--source-lang", default="", help="Source language of a multilingual model.")
@click.option("--target-lang", default="", help="Target language of a multilingual model.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="CPU threads.")
@signature_option
@options_of(GenerationOptions, unset=True)
def command(
    text: str,
    output: Path,
    model: Path | None,
    beside: Path | None,
    force: bool,
    split: str,
    source_lang: str,
    target_lang: str,
    threads: int,
    require_signature: Path | None,
    **values: Any,
) -> None:
    """Write a page that shows what a model does with the sentence TEXT.

    Pieces, positions, the attention of every head, masks, the probabilities of each step, the KV cache, the beam search
    and the time of each part. The page is one file that loads nothing else. Search options are those of translate.
    """
    from seq2edge.explain.explanation import Explanation, explain
    from seq2edge.explain.report import write_report
    from seq2edge.files.lines import check_new
    from seq2edge.translator import Translator

    check_new(output, force=force)
    options = take_set(GenerationOptions, values)
    options |= {"split": split, "source_lang": source_lang, "target_lang": target_lang}

    def explained(bundle: Path | None) -> Explanation:
        with Translator(bundle, threads=threads, require_signature=require_signature) as translator:
            return explain(translator, text, **options)

    explanations = [explained(model)] + ([explained(beside)] if beside is not None else [])
    write_report(explanations, output)
    for one in explanations:
        click.echo(f"{one.name}: {one.translation.text}")
    click.echo(f"{output}: {output.stat().st_size / 1e6:.2f} MB")
