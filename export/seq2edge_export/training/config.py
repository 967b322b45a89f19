"""Settings of the trainer and their limits."""

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

MAX_WEIGHT = 100
LABELS, TEACHER = "labels", "teacher"  # what seq2edge distill keeps in a checkpoint folder besides the training


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    vocabulary: int = setting(8000, "pieces in the vocabulary (of each language, if they are separate)")
    tokenizer: Literal["unigram", "bpe"] = setting("unigram", "type of SentencePiece model")
    joint_vocabulary: bool = setting(True, "one vocabulary for both languages")
    character_coverage: float = setting(0.9995, "share of the characters that get a piece; the others become bytes")
    split_digits: bool = setting(False, "give every digit its own piece, so that unseen numbers can be copied")


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    width: int = setting(256, "width of the model")
    heads: int = setting(4, "attention heads")
    encoder_layers: int = setting(6, "layers of the encoder")
    decoder_layers: int = setting(2, "layers of the decoder; fewer make translation faster")
    feed_forward: int = setting(1024, "width inside the feed-forward layers")
    activation: Activation = setting("relu", "activation of the feed-forward layers")
    gated: bool = setting(False, "gated feed-forward layers")
    norm_first: bool = setting(True, "layer norm before each sublayer instead of after it")
    positions: Positions = setting("sinusoidal", "type of position embeddings")
    max_positions: int = setting(512, "maximum length of a sentence in tokens")
    tied_output: bool = setting(True, "use the target embedding as output projection")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    batch_tokens: int = setting(4096, "tokens per batch, including padding, of the longer side")
    accumulate: int = setting(1, "batches per update")
    optimizer: Literal["adamw", "muon"] = setting("adamw", "optimizer of the matrices inside the layers")
    learning_rate: float = setting(1e-3, "learning rate at the end of the warm-up")
    warmup_steps: int = setting(1000, "updates of the warm-up")
    cooldown_steps: int = setting(0, "updates at the end in which the learning rate falls to zero")
    weight_decay: float = setting(0.01, "weight decay of the matrices")
    clip_norm: float = setting(1.0, "maximum norm of the gradient")
    label_smoothing: float = setting(0.1, "label smoothing")
    dropout: float = setting(0.1, "dropout rate")
    scheduled_sampling: float = setting(0.0, "share of the decoder's input that is the model's own output")
    noise: float = setting(0.0, "noisy copies of training pairs, as people type them, for each pair")
    max_steps: int = setting(20000, "maximum number of updates")
    evaluate_every: int = setting(500, "updates between evaluations on the dev set")
    save_every: int = setting(100, "updates between saved states")
    average: int = setting(5, "number of last evaluated weights that are averaged")
    patience: int = setting(10, "evaluations without a better one after which training ends")
    seed: int = setting(1, "random seed")
    device: Literal["auto", "cpu", "cuda"] = setting("auto", "device to train on; auto keeps that of a resumed run")
    precision: Literal["auto", "fp32", "bf16"] = setting(
        "auto", "precision of the computation; auto uses bf16 where it is faster"
    )
    threads: int = setting(0, "CPU threads; 0 uses all available CPUs")
    bleu_tokenizer: Literal["13a", "intl", "zh", "char"] = setting("13a", "tokenizer of sacreBLEU; zh for Chinese")
    store: Literal["fp32", "fp16"] = setting("fp32", "precision of the stored weights; fp16 takes half the space")


class WeightedFile(NamedTuple):
    """A file of pairs, and how often each pair is seen in an epoch: 2 is twice, 0.5 is every second epoch or so."""

    path: Path
    weight: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "WeightedFile":
        """Read FILE or FILE@WEIGHT."""
        path, at, weight = text.rpartition("@")
        if not at or Path(text).exists():
            return cls(Path(text))
        try:
            value = float(weight)
        except ValueError:
            return cls(Path(text))
        if not 0 < value <= MAX_WEIGHT:
            raise UsageError(f"the weight of {path} is {weight}, but must be above 0 and at most {MAX_WEIGHT}")
        return cls(Path(path), value)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training run; invalid settings are refused here, before anything is written."""

    train: tuple[WeightedFile, ...]
    dev: Path
    output: Path
    source_language: str = ""
    target_language: str = ""
    license: str = ""
    attribution: str = ""
    initial: Path | None = None  # a checkpoint whose weights and vocabulary the run starts from
    tokenizer: TokenizerSettings
    model: ModelSettings
    training: TrainingSettings

    def __post_init__(self) -> None:
        groups = (self.tokenizer, self.model, self.training)
        problems = [problem for group in groups for problem in problems_of(group)]
        if not problems:
            try:
                _ = self.architecture
            except ValueError as error:
                problems = [str(error)]
        if problems:
            raise UsageError("; ".join(problems))

    @property
    def architecture(self) -> Architecture:
        return Architecture(
            source_vocabulary=self.tokenizer.vocabulary,
            target_vocabulary=self.tokenizer.vocabulary,
            joint_vocabulary=self.tokenizer.joint_vocabulary,
            final_norm=self.model.norm_first,  # else the output of the last layer would have no norm
            **asdict(self.model),
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Return all settings by name, for the saved state and the recipe of the model card."""
        return {**asdict(self.tokenizer), **asdict(self.model), **asdict(self.training)}

    @property
    def work(self) -> Path:
        """Return the folder of the state and the curves, inside the checkpoint."""
        return self.output / "training"

    @property
    def state(self) -> Path:
        return self.work / "state.pt"


class SettingLimit(NamedTuple):
    """A condition and its description."""

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
    "max_positions": SettingLimit("at least 2: a token and the end of sentence", lambda value: value >= 2),
    "batch_tokens": POSITIVE_COUNT,
    "accumulate": POSITIVE_COUNT,
    "learning_rate": POSITIVE,
    "warmup_steps": COUNT,
    "cooldown_steps": COUNT,
    "weight_decay": COUNT,
    "clip_norm": POSITIVE,
    "label_smoothing": SHARE,
    "dropout": SHARE,
    "scheduled_sampling": SHARE,
    "noise": SettingLimit("from 0 to 1", lambda value: 0 <= value <= 1),
    "max_steps": POSITIVE_COUNT,
    "evaluate_every": POSITIVE_COUNT,
    "save_every": POSITIVE_COUNT,
    "average": POSITIVE_COUNT,
    "patience": POSITIVE_COUNT,
    "seed": SettingLimit("from 0 to 4294967295", lambda value: 0 <= value < 2**32),
    "threads": COUNT,
}


def problems_of(settings: "DataclassInstance") -> list[str]:
    """Name all invalid settings by their command-line options."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return [_problem(name, value) for name, value in values.items() if not _allowed(name, value)]


def _allowed(name: str, value: Any) -> bool:
    return name not in LIMITS or (math.isfinite(value) and LIMITS[name].holds(value))


def _problem(name: str, value: Any) -> str:
    return f"--{name.replace('_', '-')} is {value}, but must be {LIMITS[name].text}"
