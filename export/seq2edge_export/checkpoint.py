"""Read and write the checkpoint folders of ``seq2edge train``.

::

    checkpoint/
    ├── config.json              architecture, languages, special tokens, tokenizer files
    ├── model.safetensors        every tensor once, under its name in the Transformer
    ├── generation_config.json   default generation options
    ├── tokenizer.model          SentencePiece (or source.model and target.model)
    └── README.md                model card: license, attribution, recipe, quality
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.bundle.bundle import Rights
from seq2edge.config.architecture import Architecture, count_parameters
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.config.schema import SchemaError, read_strict
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError, listed
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.source_model import SourceModel
from seq2edge_export.tracing.graph_modules import transformer_graphs

CONFIG, WEIGHTS, GENERATION, CARD = "config.json", "model.safetensors", "generation_config.json", "README.md"
FORMAT_VERSION = 1
MAX_PARAMETERS_PER_BYTE, FREE_PARAMETERS = 16, 1_000_000
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
            raise ValueError(f"format_version is {self.format_version}, but this version reads {FORMAT_VERSION}")
        for name in (self.source_tokenizer, self.target_tokenizer):
            if Path(name).name != name:
                raise ValueError(f"the tokenizer file {name!r} is not a plain file name")

    @classmethod
    def create(
        cls,
        architecture: Architecture,
        tokens: SpecialTokens,
        tokenization: Tokenization,
        languages: tuple[str, str] = ("", ""),
        license: str = "",
        attribution: str = "",
    ) -> "CheckpointConfig":
        """Describe a checkpoint of another format, with the files of its tokenization."""
        return cls(
            format_version=FORMAT_VERSION,
            architecture=architecture,
            tokens=tokens,
            source_tokenizer=tokenization.source,
            target_tokenizer=tokenization.target,
            source_language=languages[0],
            target_language=languages[1],
            license=license,
            attribution=attribution,
        )


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of any family, in memory."""

    family: str
    config: CheckpointConfig
    generation: GenerationOptions
    model: Transformer
    tokenization: Tokenization
    tokenizer_files: dict[str, Path]  # by their names in a bundle
    languages: Languages | None = None  # None: those of the config

    def source_model(self) -> SourceModel:
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
    """Read a checkpoint and check all of its tensors."""
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


def _check_size(architecture: Architecture, weights: Path) -> None:
    """Check before allocating memory that the weights file could hold a model of this size at all."""
    parameters, size = count_parameters(architecture), weights.stat().st_size if weights.is_file() else 0
    if parameters > MAX_PARAMETERS_PER_BYTE * size + FREE_PARAMETERS:
        raise CheckpointError(
            f"{weights} has {size:,} bytes, but the model that {CONFIG} describes has {parameters:,} parameters"
        )


def read_config(folder: Path) -> CheckpointConfig:
    return _read(CheckpointConfig, folder / CONFIG)


def save_config(folder: Path, config: CheckpointConfig, generation: GenerationOptions) -> None:
    for name, content in ((CONFIG, config), (GENERATION, generation)):
        with replaced_file(folder / name) as path:
            path.write_text(json.dumps(asdict(content), indent=2) + "\n", encoding="utf-8")


def save_weights(path: Path, tensors: dict[str, Tensor], *, dtype: torch.dtype = torch.float32) -> None:
    """Write tensors as safetensors; the file appears only when it is complete."""
    with replaced_file(path) as new:
        save_file({name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in tensors.items()}, new)
        new.chmod(0o644)  # safetensors makes it readable by the owner only


def weights_of(model: Transformer) -> dict[str, Tensor]:
    """Return every parameter once, tied ones under their first name."""
    return dict(model.named_parameters())


def load_weights(model: Transformer, path: Path) -> None:
    """Load the weights of a model and name all mismatching tensors in one error."""
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read as safetensors ({error})") from None
    parameters = weights_of(model)
    problems = _mismatches(tensors, parameters)
    if problems:
        raise CheckpointError(f"{path} does not match the model that {CONFIG} describes: {listed(problems)}")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def _mismatches(tensors: dict[str, Tensor], parameters: dict[str, Tensor]) -> list[str]:
    problems = [f"{name} is missing" for name in parameters if name not in tensors]
    problems += [f"{name} is not part of the model" for name in tensors if name not in parameters]
    for name in sorted(tensors.keys() & parameters.keys()):
        shape, expected = tuple(tensors[name].shape), tuple(parameters[name].shape)
        if shape != expected:
            problems.append(f"{name} has the shape {shape} instead of {expected}")
        elif not tensors[name].is_floating_point():
            problems.append(f"{name} has the dtype {tensors[name].dtype} instead of a floating-point one")
        elif not torch.isfinite(tensors[name]).all():
            problems.append(f"{name} contains NaN or infinity")
    return problems


def _read(cls: type[T], path: Path) -> T:
    try:
        return read_strict(cls, json.loads(path.read_text(encoding="utf-8")), where=path.name)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (SchemaError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} is not valid: {error}") from None
