"""``seq2edge distill``: let a teacher translate text, and train a small model on it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seq2edge.cli.click_options import grouped_help, options_of, take
from seq2edge_export.cli.train import FILE, make_job, run_training, training_options
from seq2edge_export.distillation.filters import FilterSettings
from seq2edge_export.training.config import (
    LABELS,
    TEACHER,
    ModelSettings,
    TokenizerSettings,
    TrainingSettings,
    WeightedFile,
)

if TYPE_CHECKING:
    from seq2edge_export.distillation.labels import LabelSettings, TextLabels
    from seq2edge_export.training.config import Job

GROUPS: dict[str, type | str] = {
    "Teacher": "num_beams best_of",
    "Dropped pairs": FilterSettings,
    "Vocabulary": TokenizerSettings,
    "Model": ModelSettings,
    "Training": TrainingSettings,
}
EXAMPLES = {
    "BUNDLE --text english.txt --dev dev.tsv --output CHECKPOINT": "a line of text is a sentence or a paragraph",
    "BUNDLE --text english.txt --pairs human.tsv@3 ...": "human translations besides, three times as often",
    "BUNDLE --text pairs.tsv --best-of 8 ...": "of eight translations the one nearest to the human translation",
    "BUNDLE ... --only label": "translate now, look at labels/*.tsv, and train later with --only train",
}


@click.command(cls=grouped_help(GROUPS, EXAMPLES))
@click.argument("teacher", type=click.Path(path_type=Path))
@click.option(
    "--text",
    "texts",
    metavar=FILE,
    multiple=True,
    required=True,
    help="Text to translate, one a line, also .gz or .xz; a .tsv has human translations as well. Repeatable.",
)
@click.option("--pairs", metavar=FILE, multiple=True, help="Human pairs to train on as well; repeatable.")
@click.option("--only", type=click.Choice(["label", "train"]), help="Only translate the text, or only train.")
@click.option("--num-beams", type=click.IntRange(min=1), help="Beams of the teacher; default: as its bundle says.")
@click.option(
    "--best-of",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Of so many translations, take the one nearest to the human translation.",
)
@options_of(FilterSettings)
@training_options
def command(
    teacher: Path,
    texts: tuple[str, ...],
    pairs: tuple[str, ...],
    only: str | None,
    num_beams: int | None,
    best_of: int,
    resume: bool,
    **values: Any,
) -> None:
    """Let TEACHER, a bundle or a checkpoint, translate plain text, and train a small model on the result.

    The folder labels in the output contains what the teacher has translated: *.tsv are the pairs to learn from,
    *.dropped.tsv those that look bad, with the reason. To continue an interrupted run, repeat the command with
    --resume; nothing is translated or learned twice.
    """
    from seq2edge_export.distillation.labels import LabelSettings, TextLabels, check_names

    filters = take(FilterSettings, values)
    output, files = values["output"], [WeightedFile.parse(text) for text in texts]
    labels = [TextLabels(file.path, output / LABELS) for file in files]
    check_names(labels)
    learned = [WeightedFile(label.pairs, file.weight) for label, file in zip(labels, files, strict=True)]
    job = make_job((*learned, *map(WeightedFile.parse, pairs)), **values)
    if only != "train":
        _check_output(output, resume=resume)
        languages = job.source_language, job.target_language
        settings = LabelSettings(num_beams=num_beams, best_of=best_of, languages=languages)
        _label(_bundle_of(teacher, output), labels, job, settings, filters)
    if only != "label":
        run_training(_with_languages(job, teacher), resume=resume)


def _check_output(output: Path, *, resume: bool) -> None:
    from seq2edge.errors import UsageError

    if not resume and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} is not an empty folder: use --resume to continue a run in it, or another --output")


def _bundle_of(teacher: Path, output: Path) -> Path:
    """Return the teacher as a bundle; a checkpoint is exported into the output."""
    from seq2edge.bundle.tensor_names import MANIFEST
    from seq2edge.cli.progress import stages

    exported = output / TEACHER
    if (teacher / MANIFEST).exists():
        return teacher
    if not (exported / MANIFEST).exists():
        from seq2edge_export.export import Progress, export_bundle

        with stages() as stage:
            export_bundle(teacher, exported, progress=Progress(stage))
    return exported


def _label(
    bundle: Path, labels: list["TextLabels"], job: "Job", settings: "LabelSettings", filters: FilterSettings
) -> None:
    """Translate and filter all texts."""
    from seq2edge.cli.progress import status
    from seq2edge.devices.cpu import share_cpus
    from seq2edge.translator import Translator
    from seq2edge_export.distillation.labels import digest_of, summary
    from seq2edge_export.training.data import read_pairs

    seen = {digest_of(source) for source in read_pairs(job.dev).sources}
    workers, threads = share_cpus(None, job.training.threads or None, many=True)
    with Translator(bundle, workers=workers, threads=threads) as translator:
        for label in labels:
            count = label.prepare(seen)
            click.echo(f"{label.text}: {count:,} different texts", err=True)
            with status(count) as update:
                label.translate(translator, settings, update)
            click.echo(summary(label, label.filter(filters)), err=True)


def _with_languages(job: "Job", teacher: Path) -> "Job":
    """Return the job with the teacher's languages in the place of those that are not given."""
    from seq2edge.bundle.bundle import load_bundle

    if job.source_language and job.target_language:
        return job
    languages = load_bundle(_bundle_of(teacher, job.output), check_hashes=False).manifest.languages
    return replace(
        job,
        source_language=job.source_language or languages.source,
        target_language=job.target_language or languages.target,
    )
