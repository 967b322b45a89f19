"""The checkpoint folder that the trainer writes and the export reads.

::

    checkpoint/
    ├── config.json              shape, languages, special ids, tokenizer files
    ├── model.safetensors        every tensor once, under its name in the Transformer
    ├── generation_config.json   defaults of the search
    ├── tokenizer.model          SentencePiece (or source.model and target.model)
    └── README.md                model card: licence, attribution, recipe, quality
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.bundle.bundle import Rights
from seq2edge.config.architecture import Architecture, count_parameters
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.config.schema import ClosedError, read_closed
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.source_model import SourceModel
from seq2edge_export.tracing.graph_modules import transformer_graphs

CONFIG, WEIGHTS, GENERATION, CARD = "config.json", "model.safetensors", "generation_config.json", "README.md"
FORMAT_VERSION = 1
MOST_NUMBERS_A_BYTE, FEW_NUMBERS = 16, 1_000_000
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """The content of ``config.json``."""

    format_version: int
    architecture: Architecture
    tokens: SpecialTokens
    source_tokenizer: str
    target_tokenizer: str
    source_language: str
    target_language: str
    license: str = ""
    attribution: str = ""

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise ValueError(f"format_version is {self.format_version}, but this seq2edge reads {FORMAT_VERSION}")
        for name in (self.source_tokenizer, self.target_tokenizer):
            if Path(name).name != name:
                raise ValueError(f"the tokenizer file {name!r} is not a plain file name")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory, whatever family it is of."""

    family: str
    config: CheckpointConfig
    generation: GenerationOptions
    model: Transformer
    tokenization: Tokenization
    tokenizer_files: dict[str, Path]  # by the names that they have in a bundle
    languages: Languages | None = None  # None: the two that the config names

    def original(self) -> SourceModel:
        """What becomes a bundle."""
        config = self.config
        return SourceModel(
            family=self.family,
            graphs=transformer_graphs(self.model),
            architecture=config.architecture,
            parameters=count_parameters(config.architecture),
            max_positions=config.architecture.max_positions,
            tokens=config.tokens,
            tokenization=self.tokenization,
            tokenizer_files=self.tokenizer_files,
            generation=self.generation,
            languages=self.languages or Languages(source=config.source_language, target=config.target_language),
            rights=Rights(license=config.license, attribution=config.attribution),
        )


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint and check every tensor of it."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder; a checkpoint is a folder with {CONFIG} and {WEIGHTS}")
    config = read_config(folder)
    generation = _read(GenerationOptions, folder / GENERATION)
    _check_size(config.architecture, folder / WEIGHTS)
    model = Transformer(config.architecture)
    load_weights(model, folder / WEIGHTS)
    tokenization = Tokenization(source=config.source_tokenizer, target=config.target_tokenizer)
    files = {name: folder / name for name in tokenization.files}
    return Checkpoint("seq2edge", config, generation, model.eval(), tokenization, files)


def _check_size(shape: Architecture, weights: Path) -> None:
    """Before memory is asked for: a shape that the file cannot fill by far is a mistake, or a trap."""
    wanted, there = count_parameters(shape), weights.stat().st_size if weights.is_file() else 0
    if wanted > MOST_NUMBERS_A_BYTE * there + FEW_NUMBERS:
        raise CheckpointError(
            f"{weights} has {there:,} bytes, but the model that {CONFIG} describes has {wanted:,} numbers"
        )


def read_config(folder: Path) -> CheckpointConfig:
    return _read(CheckpointConfig, folder / CONFIG)


def save_config(folder: Path, config: CheckpointConfig, generation: GenerationOptions) -> None:
    for name, content in ((CONFIG, config), (GENERATION, generation)):
        with replaced_file(folder / name) as path:
            path.write_text(json.dumps(asdict(content), indent=2) + "\n", encoding="utf-8")


def save_weights(path: Path, tensors: dict[str, Tensor], *, dtype: torch.dtype = torch.float32) -> None:
    """Write tensors as safetensors, complete or not at all."""
    with replaced_file(path) as new:
        save_file({name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in tensors.items()}, new)
        new.chmod(0o644)  # safetensors writes for the owner alone


def weights_of(model: Transformer) -> dict[str, Tensor]:
    """Every parameter once: a tied one is under its first name."""
    return dict(model.named_parameters())


def load_weights(model: Transformer, path: Path) -> None:
    """Fill a model from a file and name every tensor that does not fit in one error."""
    try:
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read as safetensors ({error})") from None
    wanted = weights_of(model)
    problems = _misfits(found, wanted)
    if problems:
        raise CheckpointError(f"{path} does not hold the model that {CONFIG} describes: {'; '.join(problems)}")
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(found[name])


def _misfits(found: dict[str, Tensor], wanted: dict[str, Any]) -> list[str]:
    problems = [f"{name} is missing" for name in wanted if name not in found]
    problems += [f"{name} is not part of the model" for name in found if name not in wanted]
    for name in sorted(found.keys() & wanted.keys()):
        shape, expected = tuple(found[name].shape), tuple(wanted[name].shape)
        if shape != expected:
            problems.append(f"{name} has the shape {shape} instead of {expected}")
        elif not found[name].is_floating_point():
            problems.append(f"{name} holds {found[name].dtype} instead of floating-point numbers")
        elif not torch.isfinite(found[name]).all():
            problems.append(f"{name} holds NaN or infinity")
    return problems


def _read(cls: type[T], path: Path) -> T:
    try:
        return read_closed(cls, json.loads(path.read_text(encoding="utf-8")), where=path.name)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (ClosedError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} is not as it should be: {error}") from None
