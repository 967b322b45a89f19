"""``seq2edge train``: train a model on sentence pairs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from seq2edge.cli.click_options import grouped_help, options_of, take
from seq2edge_export.training.config import ModelSettings, TokenizerSettings, TrainingSettings, WeightedFile

if TYPE_CHECKING:
    from seq2edge_export.training.config import Job

F = TypeVar("F", bound=Callable[..., Any])
GROUPS = {"Vocabulary": TokenizerSettings, "Model": ModelSettings, "Training": TrainingSettings}
EXAMPLES = {
    "--train train.tsv --dev dev.tsv --output CHECKPOINT": "lines of  source<TAB>target",
    "--train train.tsv --dev dev.tsv --output CHECKPOINT --resume": "continue after an interruption",
    "--from CHECKPOINT --train own.tsv --dev dev.tsv --output TUNED": "continue with other pairs",
    "--train many.tsv@0.5 --train good.tsv@3 ...": "half of one file and three times the other in every epoch",
}
FILE = "FILE[@WEIGHT]"


def training_options(command: F) -> F:
    """Decorate a command that trains with everything but the pairs to train on."""
    options = [
        click.option("--dev", type=click.Path(path_type=Path), required=True, help="Pairs to evaluate on."),
        click.option("--output", type=click.Path(path_type=Path), required=True, help="Checkpoint folder to create."),
        click.option("--resume", is_flag=True, help="Continue an interrupted run with this output, if there is one."),
        click.option(
            "--from",
            "initial",
            metavar="CHECKPOINT",
            type=click.Path(path_type=Path),
            help="Start from the weights and the vocabulary of a checkpoint of seq2edge train.",
        ),
        click.option("--source-lang", default="", help="Source language, such as 'en'; stored in the checkpoint."),
        click.option("--target-lang", default="", help="Target language, such as 'pt'; stored in the checkpoint."),
        click.option("--license", default="", help="License of the trained model, for its model card."),
        click.option("--attribution", default="", help="Source of the training data, for the model card."),
        options_of(TokenizerSettings),
        options_of(ModelSettings),
        options_of(TrainingSettings),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def make_job(train: tuple[WeightedFile, ...], source_lang: str, target_lang: str, **values: Any) -> "Job":
    """Return the job that the options describe."""
    from seq2edge_export.training.config import Job

    return Job(
        train=train,
        source_language=source_lang,
        target_language=target_lang,
        tokenizer=take(TokenizerSettings, values),
        model=take(ModelSettings, values),
        training=take(TrainingSettings, values),
        **values,
    )


def run_training(job: "Job", *, resume: bool) -> None:
    """Train, and print the best evaluation."""
    from seq2edge_export.training.loop import train
    from seq2edge_export.training.report import Display

    try:
        with Display(steps=job.training.max_steps) as display:
            best = train(job, resume=resume, observer=display)
    except KeyboardInterrupt:
        saved = "repeat the command with --resume to continue" if job.state.exists() else "nothing was saved yet"
        click.echo(f"interrupted: {saved}", err=True)
        raise SystemExit(130) from None
    click.echo(f"{job.output}: BLEU {best.dev_bleu:.2f} and dev loss {best.dev_loss:.3f} after {best.step:,} updates")


@click.command(cls=grouped_help(GROUPS, EXAMPLES))
@click.option(
    "--train",
    metavar=FILE,
    multiple=True,
    required=True,
    help="Pairs to train on; repeatable. With a weight, each pair is used so many times in an epoch.",
)
@training_options
def command(train: tuple[str, ...], resume: bool, **values: Any) -> None:
    """Train a translation model on lines of  source<TAB>target  in UTF-8.

    The checkpoint is the best average of recent weights so far, by BLEU on the dev set, or by its loss while BLEU is
    too low to tell models apart; it can be used while the training continues. training/log.csv and training/curves.png
    in its folder show the learning curves. To continue an interrupted run, repeat the command with --resume.
    """
    run_training(make_job(tuple(map(WeightedFile.parse, train)), **values), resume=resume)
