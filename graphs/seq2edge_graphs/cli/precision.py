"""Options for the precision of a bundle, shared by ``export`` and ``quantize``."""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from seq2edge.config.parity import Parity
    from seq2edge_graphs.quantize.auto_precision import PrecisionChoice

F = TypeVar("F", bound=Callable[..., Any])
FILE = click.Path(path_type=Path)
PRECISION = (
    "Precision of the weights; int8 is the fastest on CPUs; fp16-compute also computes in float16, for GPUs; "
    "auto finds the fewest bits within --max-bleu-loss."
)
KEEP = "Weights to keep in the next higher precision, such as 'decoder.0.*'; can be repeated."
CALIBRATE = "Sentences to calibrate rounding to 8 and 4 bits with, one per line.  [default: random and built-in text]"
MAX_BLEU_LOSS = "With --precision auto: the largest loss of BLEU on --input."


def precision_options(default: str, *, choices: Sequence[str]) -> Callable[[F], F]:
    """Add the options of a precision to a command, which gets them as the parameter ``quantization``."""

    def decorate(command: F) -> F:
        @click.option("--precision", type=click.Choice(choices), default=default, show_default=True, help=PRECISION)
        @click.option("--keep-precision", "keep", multiple=True, metavar="PATTERN", help=KEEP)
        @click.option("--max-bleu-loss", type=float, help=MAX_BLEU_LOSS)
        @click.option(
            "--input", "source", type=FILE, help="Sentences to compare on, one per line.  [default: built-in]"
        )
        @click.option("--reference", type=FILE, help="Their translations, for BLEU and chrF.")
        @click.option("--calibrate", type=FILE, help=CALIBRATE)
        @wraps(command)
        def with_quantization(
            precision: Any,
            keep: tuple[str, ...],
            max_bleu_loss: float | None,
            source: Path | None,
            reference: Path | None,
            calibrate: Path | None,
            **others: Any,
        ) -> Any:
            from seq2edge_graphs.parity.sentences import read_texts
            from seq2edge_graphs.quantize.config import QuantizationConfig

            texts, references = read_texts(source, reference)
            quantization = QuantizationConfig(
                precision=precision,
                keep=keep,
                max_bleu_loss=max_bleu_loss,
                texts=texts,
                references=references,
                calibration=read_texts(calibrate, None)[0] or (),
            )
            return command(quantization=quantization, **others)

        return with_quantization  # type: ignore[return-value]

    return decorate


def explain(choice: "PrecisionChoice") -> str:
    """Return a table of the precision of each group of weights, and of the divergence that it was chosen by."""
    from seq2edge_graphs.quantize.auto_precision import LADDER

    width = max(len(group.name) for group in choice.groups)
    lines = [f"{'weights':<{width}}  kept in  {'elements':>12}  divergence with these alone in {LADDER[0][0]}"]
    for group in choice.groups:
        precision = choice.precision(group)
        lines.append(f"{group.name:<{width}}  {precision:<7}  {group.elements:>12,}  {group.divergence:.1e}")
    return "\n".join([*lines, f"BLEU {choice.bleu:.2f} instead of {choice.bleu_fp32:.2f}"])


def quality_text(parity: "Parity | None") -> str:
    """Return the loss of BLEU and chrF, if there were references."""
    if parity is None or parity.quality is None:
        return ""
    quality = parity.quality
    return (
        f", BLEU {quality.bleu_bundle:.2f} instead of {quality.bleu_original:.2f}, "
        f"chrF {quality.chrf_bundle:.2f} instead of {quality.chrf_original:.2f}"
    )
