"""``seq2edge quantize``: quantize a float32 bundle."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from seq2edge.cli.click_options import grouped_help
from seq2edge_graphs.cli.precision import explain, precision_options, quality_text

if TYPE_CHECKING:
    from seq2edge_graphs.quantize.auto_precision import PrecisionChoice
    from seq2edge_graphs.quantize.config import QuantizationConfig

GROUPS = {"Precision": "precision keep max_bleu_loss calibrate", "Comparison": "compare source reference"}
EXAMPLES = {
    "BUNDLE OUTPUT": "8 bits",
    "BUNDLE OUTPUT --precision int4 --calibrate sentences.txt": "4 bits, calibrated",
    "BUNDLE OUT --precision auto --max-bleu-loss 1 --input en.txt --reference de.txt": "as few bits as possible",
}


@click.command(cls=grouped_help(GROUPS, EXAMPLES))
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@precision_options("int8", choices=("fp16", "fp16-compute", "int8", "int4", "auto"))
@click.option("--verify/--no-verify", "compare", default=True, help="Compare the result with BUNDLE.")
@click.option("--force", is_flag=True, help="Replace an existing bundle.")
def command(bundle: Path, output: Path, quantization: "QuantizationConfig", compare: bool, force: bool) -> None:
    """Quantize BUNDLE, which is in float32, and write the result to OUTPUT; does not need PyTorch."""
    from seq2edge.cli.progress import stages
    from seq2edge_graphs.quantize.pipeline import quantize_bundle

    choices: list[PrecisionChoice] = []
    with stages() as progress:
        quantized = quantize_bundle(
            bundle,
            output,
            quantization,
            compare=compare,
            force=force,
            progress=progress,
            explain=choices.append,
        )
    for choice in choices:
        click.echo(explain(choice))
    click.echo(f"{output}: {quantized.size_text}{quality_text(quantized.manifest.parity)}")
