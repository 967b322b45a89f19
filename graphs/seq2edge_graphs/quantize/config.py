"""Settings of a quantization."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from seq2edge.errors import UsageError

TargetPrecision = Literal["fp32", "fp16", "fp16-compute", "int8", "int4", "auto"]


@dataclass(frozen=True, kw_only=True)
class QuantizationConfig:
    """The target precision, or for "auto" the largest loss of BLEU, and the sentences to measure and calibrate with."""

    precision: TargetPrecision = "fp32"
    keep: Sequence[str] = ()  # patterns of weights to keep in the next higher precision
    max_bleu_loss: float | None = None  # only with "auto"
    texts: Sequence[str] | None = None  # to measure on; None for a built-in set
    references: Sequence[str] | None = None  # translations of the texts, for BLEU
    calibration: Sequence[str] = ()  # sentences to calibrate with; none: random tokens and a built-in set

    @property
    def advice(self) -> str:
        """Say what helps if the outputs differ too much."""
        return ADVICE.get(self.precision, "") + "use --no-verify to write it anyway"

    def __post_init__(self) -> None:
        if self.precision == "auto" and (self.references is None or self.max_bleu_loss is None):
            raise UsageError("--precision auto measures BLEU: give --input, --reference and --max-bleu-loss")
        if self.precision != "auto" and self.max_bleu_loss is not None:
            raise UsageError("--max-bleu-loss is only used with --precision auto")
        if self.precision == "auto" and self.keep:
            raise UsageError("--keep-precision cannot be used with --precision auto, which chooses each precision")
        if self.precision == "fp32" and self.keep:
            raise UsageError("--keep-precision cannot be used with --precision fp32, which is the highest")
        if self.precision == "fp16-compute" and self.keep:
            raise UsageError("--keep-precision cannot be used with --precision fp16-compute, which rounds everything")
        if self.calibration and self.precision not in ("int8", "int4", "auto"):
            raise UsageError(f"--calibrate is for rounding to 8 and 4 bits, not for --precision {self.precision}")
        if self.max_bleu_loss is not None and not self.max_bleu_loss >= 0:
            raise UsageError(f"--max-bleu-loss is {self.max_bleu_loss}, but must be at least 0")


ADVICE = {
    "int4": "--calibrate with sentences in the source language helps, and so does --keep-precision 'decoder.*', which "
    "keeps more weights in 8 bits, or --precision int8; ",
    "int8": "--keep-precision 'decoder.*' helps, which keeps weights in 16 bits, or --precision fp16; ",
}
FP32 = QuantizationConfig()
