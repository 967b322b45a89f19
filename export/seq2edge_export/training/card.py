"""The model card of a trained checkpoint: licence, attribution, quality and recipe; needs torch."""

from typing import Any

from seq2edge import __version__
from seq2edge.architecture import count_parameters
from seq2edge.files import replaced_file
from seq2edge_export import checkpoint
from seq2edge_export.checkpoint import CheckpointConfig
from seq2edge_export.training.history import Measurement
from seq2edge_export.training.job import Job

CARD = """\
# {title}

An encoder-decoder Transformer of {parameters:,} parameters, trained with `seq2edge train` {version}.

- Licence: {license}
- Attribution: {attribution}

## Quality

BLEU {best.dev_bleu:.2f} (sacreBLEU, tokenizer {settings[bleu_tokenizer]}, cased, greedy search) and a loss of \
{best.dev_loss:.4f} nats a token on {pairs[dev]:,} pairs of `{dev}`, measured after {best.step:,} updates \
({best.epoch:.1f} epochs, {hours:.1f} hours). The weights are the average of the last {settings[average]} that were \
measured, or of all if there were fewer. `training/log.csv` and `training/curves.png` show the way there.

## Recipe

{pairs[train]:,} pairs of `{train}`, and these settings:

| setting | value |
|---|---|
{recipe}
"""


def write_card(job: Job, config: CheckpointConfig, best: Measurement, *, pairs: dict[str, int]) -> None:
    """Write the card of the checkpoint whose weights were measured as ``best``."""
    card = CARD.format(
        title=_title(config),
        parameters=count_parameters(config.architecture),
        version=__version__,
        license=config.license or "not stated",
        attribution=config.attribution or "not stated",
        best=best,
        hours=best.seconds / 3600,
        settings=job.settings,
        pairs=pairs,
        train=job.train.name,
        dev=job.dev.name,
        recipe="\n".join(_row(name, value) for name, value in job.settings.items()),
    )
    with replaced_file(job.output / checkpoint.CARD) as new:
        new.write_text(card, encoding="utf-8")


def _title(config: CheckpointConfig) -> str:
    languages = [config.source_language, config.target_language]
    return f"Translation from {languages[0]} to {languages[1]}" if all(languages) else "Translation model"


def _row(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"| `--{'' if value else 'no-'}{name.replace('_', '-')}` | |"
    return f"| `--{name.replace('_', '-')}` | {value} |"
