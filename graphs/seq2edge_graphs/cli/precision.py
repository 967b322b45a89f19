"""The options of a precision, which ``export`` and ``quantize`` share."""

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


def precision_options(default: str, *, choices: Sequence[str]) -> Callable[[F], F]:
    """Give a command its options of a precision, and hand them to it as ``wish``."""

    def decorate(command: F) -> F:
        @click.option("--precision", type=click.Choice(choices), default=default, show_default=True, help=PRECISION)
        @click.option("--keep-precision", "keep", multiple=True, metavar="PATTERN", help=KEEP)
        @click.option("--max-bleu-loss", type=float, help="With --precision auto: what may be lost on --input.")
        @click.option("--input", "source", type=FILE, help="Sentences to measure on, one a line; else a built-in set.")
        @click.option("--reference", type=FILE, help="Their translations, for BLEU and chrF.")
        @click.option("--calibrate", type=FILE, help="Sentences to fit the rounding to 4 bits to, one a line.")
        @wraps(command)
        def wished(
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
            wish = QuantizationConfig(
                precision=precision,
                keep=keep,
                max_bleu_loss=max_bleu_loss,
                texts=texts,
                references=references,
                calibration=read_texts(calibrate, None)[0] or (),
            )
            return command(wish=wish, **others)

        return wished  # type: ignore[return-value]

    return decorate


PRECISION = (
    "Bits of the weights; int8-blocks is the fastest for one sentence at a time without beams, int8 for all else; "
    "fp16-compute computes in half precision too, for GPUs; "
    "auto finds the fewest within --max-bleu-loss."
)
KEEP = "Weights to keep in the next higher precision, such as 'decoder.0.*'; may be given again."


def explain(choice: "PrecisionChoice") -> str:
    """What was chosen for each group of weights, and what rounding it alone to the fewest bits costs."""
    from seq2edge_graphs.quantize.auto_precision import LADDER

    width = max(len(group.name) for group in choice.groups)
    lines = [f"{'weights':<{width}}  kept in  {'numbers':>12}  divergence if alone in {LADDER[0][0]}"]
    for group in choice.groups:
        lines.append(f"{group.name:<{width}}  {choice.precision(group):<7}  {group.numbers:>12,}  {group.damage:.1e}")
    return "\n".join([*lines, f"BLEU {choice.bleu:.2f} instead of {choice.bleu_original:.2f}"])


def quality_text(parity: "Parity | None") -> str:
    """What the translations lost, where there were references."""
    if parity is None or parity.quality is None:
        return ""
    quality = parity.quality
    return (
        f", BLEU {quality.bleu_bundle:.2f} instead of {quality.bleu_original:.2f}, "
        f"chrF {quality.chrf_bundle:.2f} instead of {quality.chrf_original:.2f}"
    )
