"""``seq2edge export``: export a checkpoint as a bundle."""

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from seq2edge.bundle.bundle import Dialect
from seq2edge.cli.click_options import grouped_help
from seq2edge.config.text import Split
from seq2edge_export.cli.verify import tokenizer_option
from seq2edge_graphs.cli.precision import explain, precision_options, quality_text

if TYPE_CHECKING:
    from seq2edge_graphs.quantize.auto_precision import PrecisionChoice
    from seq2edge_graphs.quantize.config import QuantizationConfig

GROUPS = {
    "Precision": "precision keep max_bleu_loss calibrate",
    "Comparison": "compare source reference",
}
EXAMPLES = {
    "Helsinki-NLP/opus-mt-en-de BUNDLE --precision int8": "a model of the Hugging Face Hub (extra hub)",
    "FOLDER BUNDLE --input dev.en --reference dev.pt": "compare on own sentences, also BLEU and chrF",
    "model.toml BUNDLE": "a PyTorch state dict with a recipe (seq2edge recipe)",
    "FOLDER BUNDLE --dialect portable": "for devices without onnxruntime's fused operators",
}


@click.command(cls=grouped_help(GROUPS, EXAMPLES))
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.argument("bundle", type=click.Path(path_type=Path))
@precision_options("fp32", choices=("fp32", "fp16", "fp16-compute", "int8", "int4", "auto"))
@click.option(
    "--dialect",
    type=click.Choice(get_args(Dialect)),
    default="ort",
    show_default=True,
    help="Operators to use: also fused ones of onnxruntime, or standard ONNX only.",
)
@click.option("--family", default="auto", show_default=True, help="Family of CHECKPOINT; auto recognizes it.")
@tokenizer_option
@click.option(
    "--split",
    type=click.Choice(get_args(Split)),
    default="auto",
    show_default=True,
    help="Translate each sentence of a text by itself, or the whole text at once; auto decides by the family.",
)
@click.option("--verify/--no-verify", "compare", default=True, help="Compare the bundle with the source model.")
@click.option("--force", is_flag=True, help="Replace an existing bundle.")
def command(
    checkpoint: Path,
    bundle: Path,
    quantization: "QuantizationConfig",
    dialect: Dialect,
    family: str,
    tokenizer: str,
    split: Split,
    compare: bool,
    force: bool,
) -> None:
    """Export a checkpoint folder, or a recipe, as a bundle that runs without PyTorch."""
    from seq2edge.cli.progress import stages
    from seq2edge_export.weight_offload import release_large_blocks

    release_large_blocks()
    from seq2edge_export.export import ExportOptions, Progress, export_checkpoint  # imports torch

    options = ExportOptions(
        quantization=quantization,
        dialect=dialect,
        family=family,
        tokenizer=tokenizer,
        split=split,
        compare=compare,
        force=force,
    )
    choices: list[PrecisionChoice] = []
    with stages() as stage:
        made = export_checkpoint(checkpoint, bundle, options, Progress(stage, choices.append))
    for choice in choices:
        click.echo(explain(choice))
    click.echo(f"{bundle}: {made.size_text}{quality_text(made.manifest.parity)}")
