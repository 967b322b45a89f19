"""What to train, on what, how, and where to put it; needs nothing."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seq2edge.architecture import Architecture
from seq2edge.errors import UsageError
from seq2edge_export.training.limits import problems_of
from seq2edge_export.training.settings import ModelSettings, TokenizerSettings, TrainingSettings


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
