"""``seq2edge train``: train a model on sentence pairs."""

from pathlib import Path
from typing import Any

import click

from seq2edge.cli.click_options import grouped_help, options_of, take
from seq2edge_export.training.config import ModelSettings, TokenizerSettings, TrainingSettings

GROUPS = {"Vocabulary": TokenizerSettings, "Model": ModelSettings, "Training": TrainingSettings}
EXAMPLES = {
    "--train train.tsv --dev dev.tsv --output CHECKPOINT": "lines of  source<TAB>target",
    "--train train.tsv --dev dev.tsv --output CHECKPOINT --resume": "continue after an interruption",
}


@click.command(cls=grouped_help(GROUPS, EXAMPLES))
@click.option("--train", "train_file", type=click.Path(path_type=Path), required=True, help="Pairs to train on.")
@click.option("--dev", "dev_file", type=click.Path(path_type=Path), required=True, help="Pairs to evaluate on.")
@click.option("--output", type=click.Path(path_type=Path), required=True, help="Checkpoint folder to create.")
@click.option("--resume", is_flag=True, help="Continue an interrupted run with this output, if there is one.")
@click.option("--source-lang", default="", help="Source language, such as 'en'; stored in the checkpoint.")
@click.option("--target-lang", default="", help="Target language, such as 'de'; stored in the checkpoint.")
@click.option("--license", default="", help="License of the trained model, for its model card.")
@click.option("--attribution", default="", help="Source of the training data, for the model card.")
@options_of(TokenizerSettings)
@options_of(ModelSettings)
@options_of(TrainingSettings)
def command(
    train_file: Path,
    dev_file: Path,
    output: Path,
    resume: bool,
    source_lang: str,
    target_lang: str,
    license: str,
    attribution: str,
    **values: Any,
) -> None:
    """Train a translation model on lines of  source<TAB>target  in UTF-8.

    The checkpoint is the best average of recent weights so far, by BLEU on the dev set, or by its loss while BLEU is
    too low to tell models apart; it can be used while the training continues. training/log.csv and training/curves.png
    in its folder show the learning curves. To continue an interrupted run, repeat the command with --resume.
    """
    from seq2edge_export.training.config import Job
    from seq2edge_export.training.loop import train
    from seq2edge_export.training.report import Display

    job = Job(
        train=train_file,
        dev=dev_file,
        output=output,
        source_language=source_lang,
        target_language=target_lang,
        license=license,
        attribution=attribution,
        tokenizer=take(TokenizerSettings, values),
        model=take(ModelSettings, values),
        training=take(TrainingSettings, values),
    )
    try:
        with Display(steps=job.training.max_steps) as display:
            best = train(job, resume=resume, observer=display)
    except KeyboardInterrupt:
        saved = "repeat the command with --resume to continue" if job.state.exists() else "nothing was saved yet"
        click.echo(f"interrupted: {saved}", err=True)
        raise SystemExit(130) from None
    click.echo(f"{output}: BLEU {best.dev_bleu:.2f} and dev loss {best.dev_loss:.3f} after {best.step:,} updates")
