"""What to train, on what, how, and where to put it.

Every setting of the trainer, each written once.

What each setting of the trainer may be.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from seq2edge.config.architecture import Activation, Architecture, Positions
from seq2edge.config.schema import setting
from seq2edge.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    vocabulary: int = setting(8000, "pieces in the vocabulary (of each side, if they are separate)")
    tokenizer: Literal["unigram", "bpe"] = setting("unigram", "kind of SentencePiece model")
    joint_vocabulary: bool = setting(True, "one vocabulary for both sides")
    character_coverage: float = setting(0.9995, "share of the characters that get a piece; the rest becomes bytes")


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    width: int = setting(256, "numbers in the vector of a token")
    heads: int = setting(4, "attention heads")
    encoder_layers: int = setting(6, "layers of the encoder")
    decoder_layers: int = setting(2, "layers of the decoder; few make translation fast")
    feed_forward: int = setting(1024, "width inside the feed-forward layers")
    activation: Activation = setting("relu", "activation of the feed-forward layers")
    gated: bool = setting(False, "gated feed-forward layers")
    norm_first: bool = setting(True, "layer norm before each sublayer, not after it")
    positions: Positions = setting("sinusoidal", "kind of position vectors")
    max_positions: int = setting(512, "longest sentence in tokens")
    tied_output: bool = setting(True, "use the target embedding as output projection")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    batch_tokens: int = setting(4096, "padded tokens of the longer side in a batch")
    accumulate: int = setting(1, "batches that make one update")
    learning_rate: float = setting(1e-3, "learning rate at the end of the warm-up")
    warmup_steps: int = setting(1000, "updates until the learning rate is reached")
    cooldown_steps: int = setting(0, "last updates, in which the learning rate falls to zero")
    weight_decay: float = setting(0.01, "decay of the weight matrices")
    clip_norm: float = setting(1.0, "largest norm of a gradient")
    label_smoothing: float = setting(0.1, "probability given to all other tokens")
    dropout: float = setting(0.1, "share of numbers dropped in training")
    max_steps: int = setting(20000, "updates after which training ends")
    evaluate_every: int = setting(500, "updates between measurements on the dev set")
    save_every: int = setting(100, "updates between saved states")
    average: int = setting(5, "last measured weights whose average becomes the model")
    patience: int = setting(10, "measurements without a better BLEU after which training ends")
    seed: int = setting(1, "seed of everything random")
    device: Literal["auto", "cpu", "cuda"] = setting("auto", "where to train; a resumed run stays")
    precision: Literal["auto", "fp32", "bf16"] = setting("auto", "numbers to compute with; auto is bf16 where it pays")
    threads: int = setting(0, "CPU threads; 0 takes all that are allowed")
    bleu_tokenizer: Literal["13a", "intl", "zh", "char"] = setting("13a", "how sacreBLEU splits words; zh for Chinese")
    store: Literal["fp32", "fp16"] = setting("fp32", "numbers in the checkpoint; fp16 makes it half as large")


class SettingLimit(NamedTuple):
    """A rule and how to say it."""

    text: str
    holds: Callable[[float], bool]


POSITIVE_COUNT = SettingLimit("at least 1", lambda value: value >= 1)
COUNT = SettingLimit("at least 0", lambda value: value >= 0)
POSITIVE = SettingLimit("above 0", lambda value: value > 0)
SHARE = SettingLimit("from 0 to below 1", lambda value: 0 <= value < 1)

LIMITS = {
    "vocabulary": SettingLimit("at least 261: 256 bytes, 4 special ids and a character", lambda value: value >= 261),
    "character_coverage": SettingLimit("above 0 and at most 1", lambda value: 0 < value <= 1),
    "width": POSITIVE_COUNT,
    "heads": POSITIVE_COUNT,
    "encoder_layers": POSITIVE_COUNT,
    "decoder_layers": POSITIVE_COUNT,
    "feed_forward": POSITIVE_COUNT,
    "max_positions": SettingLimit("at least 2: a token and the end mark", lambda value: value >= 2),
    "batch_tokens": POSITIVE_COUNT,
    "accumulate": POSITIVE_COUNT,
    "learning_rate": POSITIVE,
    "warmup_steps": COUNT,
    "cooldown_steps": COUNT,
    "weight_decay": COUNT,
    "clip_norm": POSITIVE,
    "label_smoothing": SHARE,
    "dropout": SHARE,
    "max_steps": POSITIVE_COUNT,
    "evaluate_every": POSITIVE_COUNT,
    "save_every": POSITIVE_COUNT,
    "average": POSITIVE_COUNT,
    "patience": POSITIVE_COUNT,
    "seed": SettingLimit("from 0 to 4294967295", lambda value: 0 <= value < 2**32),
    "threads": COUNT,
}


def problems_of(settings: "DataclassInstance") -> list[str]:
    """Everything in some settings that cannot work, as the command line names it."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return [_problem(name, value) for name, value in values.items() if not _allowed(name, value)]


def _allowed(name: str, value: Any) -> bool:
    return name not in LIMITS or (math.isfinite(value) and LIMITS[name].holds(value))


def _problem(name: str, value: Any) -> str:
    return f"--{name.replace('_', '-')} is {value}, but must be {LIMITS[name].text}"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training run as it was asked for; settings that cannot work are refused here, before anything is written."""

    train: Path
    dev: Path
    output: Path
    source_language: str = ""
    target_language: str = ""
    license: str = ""
    attribution: str = ""
    tokenizer: TokenizerSettings
    model: ModelSettings
    training: TrainingSettings

    def __post_init__(self) -> None:
        problems = [text for part in (self.tokenizer, self.model, self.training) for text in problems_of(part)]
        if not problems:
            try:
                _ = self.shape
            except ValueError as error:
                problems = [str(error)]
        if problems:
            raise UsageError("; ".join(problems))

    @property
    def shape(self) -> Architecture:
        return Architecture(
            source_vocabulary=self.tokenizer.vocabulary,
            target_vocabulary=self.tokenizer.vocabulary,
            joint_vocabulary=self.tokenizer.joint_vocabulary,
            final_norm=self.model.norm_first,  # without it the last layer's output would have no norm at all
            **asdict(self.model),
        )

    @property
    def settings(self) -> dict[str, Any]:
        """All settings by name: what a resumed run is compared with, and the recipe of the model card."""
        return {**asdict(self.tokenizer), **asdict(self.model), **asdict(self.training)}

    @property
    def work(self) -> Path:
        """State and curves live beside the checkpoint's own files."""
        return self.output / "training"

    @property
    def state(self) -> Path:
        return self.work / "state.pt"
