"""A toy language, a tiny model and an observer that records."""

import random
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from seq2edge_export.training.config import Job, ModelSettings, TokenizerSettings, TrainingSettings, WeightedFile
from seq2edge_export.training.report import Evaluation

ADJECTIVES = ["red", "blue", "green", "big", "small", "old", "new", "good"]
NOUNS = ["cat", "dog", "bird", "house", "tree", "child", "man", "woman"]
VERBS = ["sees", "likes", "finds", "hears"]

TINY: dict[str, Any] = {
    "vocabulary": 290,
    "width": 16,
    "heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "feed_forward": 32,
    "max_positions": 64,
    "batch_tokens": 512,
    "accumulate": 2,
    "warmup_steps": 5,
    "learning_rate": 0.01,
    "max_steps": 12,
    "evaluate_every": 4,
    "save_every": 3,
    "average": 2,
    "device": "cpu",
    "precision": "fp32",
    "threads": 1,
}


def sentence_pair(choose: random.Random) -> str:
    """Return an English sentence of seven words and its translation: words spelled backwards, the verb last."""
    adjectives, nouns, verb = choose.sample(ADJECTIVES, 2), choose.sample(NOUNS, 2), choose.choice(VERBS)
    source = ["the", adjectives[0], nouns[0], verb, "the", adjectives[1], nouns[1]]
    target = ["the", nouns[0], adjectives[0], "the", nouns[1], adjectives[1], verb]
    return f"{' '.join(source)}.\t{' '.join(word[::-1] for word in target)}."


def settings_from(values: dict[str, Any], cls: Any) -> Any:
    return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})


class Recorder:
    def __init__(self) -> None:
        self.messages: list[str] = []
        self.losses: list[float] = []
        self.rows: list[Evaluation] = []
        self.best: list[bool] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def step(self, step: int, *, loss: float, tokens_per_second: float) -> None:
        assert tokens_per_second > 0
        self.losses.append(loss)

    def evaluated(self, row: Evaluation, *, best: bool) -> None:
        self.rows.append(row)
        self.best.append(best)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Use one thread, so that results are the same everywhere; the models are too small for two."""
    torch.set_num_threads(1)


@pytest.fixture
def observer() -> Recorder:
    return Recorder()


@pytest.fixture(scope="session")
def nobody() -> Recorder:
    """An observer whose records are not used."""
    return Recorder()


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with train.tsv and dev.tsv."""
    folder, choose = tmp_path_factory.mktemp("toy"), random.Random(1)
    for name, count in (("train.tsv", 100), ("dev.tsv", 8)):
        (folder / name).write_text("".join(sentence_pair(choose) + "\n" for _ in range(count)), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def make_job(toy: Path) -> Callable[..., Job]:
    """Return a function that makes a tiny job; every setting may be changed by its name."""

    def make(output: Path, *, train: Path = toy / "train.tsv", dev: Path = toy / "dev.tsv", **changes: Any) -> Job:
        values = {**TINY, **changes}
        about = ("source_language", "target_language", "license", "attribution", "initial")
        return Job(
            train=(WeightedFile(train),),
            dev=dev,
            output=output,
            tokenizer=settings_from(values, TokenizerSettings),
            model=settings_from(values, ModelSettings),
            training=settings_from(values, TrainingSettings),
            **{name: values[name] for name in about if name in values},
        )

    return make


@pytest.fixture(scope="session")
def arguments(toy: Path) -> Callable[..., list[str]]:
    """Return a function that makes the command line of the same job."""

    def make(output: Path, **changes: Any) -> list[str]:
        files = {"train": toy / "train.tsv", "dev": toy / "dev.tsv", "output": output}
        options = {**files, **TINY, **changes}
        return ["train", *(f"--{name.replace('_', '-')}={value}" for name, value in options.items())]

    return make
