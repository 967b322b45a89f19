"""What is asked of a quantization."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from seq2edge.errors import UsageError

TargetPrecision = Literal["fp32", "fp16", "fp16-compute", "int8", "int8-blocks", "int4", "auto"]


@dataclass(frozen=True, kw_only=True)
class QuantizationConfig:
    """A precision, or a limit of the loss within which to find one."""

    precision: TargetPrecision = "fp32"
    keep: Sequence[str] = ()  # patterns of weights to keep in the next higher precision
    max_bleu_loss: float | None = None  # of "auto"
    texts: Sequence[str] | None = None  # to measure on; left out, a built-in set
    references: Sequence[str] | None = None  # their translations, for BLEU
    calibration: Sequence[str] = ()  # sentences whose translation the rounding to 4 bits is fitted to

    def __post_init__(self) -> None:
        if self.precision == "auto" and (self.references is None or self.max_bleu_loss is None):
            raise UsageError("--precision auto measures BLEU: give --input, --reference and --max-bleu-loss")
        if self.precision != "auto" and self.max_bleu_loss is not None:
            raise UsageError("--max-bleu-loss goes with --precision auto")
        if self.precision == "auto" and self.keep:
            raise UsageError("--keep-precision does not go with --precision auto, which chooses itself")
        if self.precision == "fp32" and self.keep:
            raise UsageError("--keep-precision does not go with --precision fp32, which keeps everything")
        if self.precision == "fp16-compute" and self.keep:
            raise UsageError("--keep-precision does not go with --precision fp16-compute, which rounds everything")
        if self.calibration and self.precision not in ("int4", "auto"):
            raise UsageError(f"--calibrate is for rounding to 4 bits, not for --precision {self.precision}")
        if self.max_bleu_loss is not None and not self.max_bleu_loss >= 0:
            raise UsageError(f"--max-bleu-loss is {self.max_bleu_loss}, but must be at least 0")


FP32 = QuantizationConfig()
