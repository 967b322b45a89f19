"""Load a Hugging Face folder of BART or a model derived from it, or download it from the Hub by name."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from seq2edge.config.architecture import Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import Languages
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError, DataError, imports_of_extras, listed
from seq2edge_export.checkpoint import Checkpoint, CheckpointConfig
from seq2edge_export.loaders.hugging_face.config import (
    HuggingFaceConfig,
    Settings,
    Traits,
    architecture_of,
    attribution,
    read_config,
    read_generation,
    read_license,
    unsupported,
)
from seq2edge_export.loaders.hugging_face.tokenizer import HuggingFaceText
from seq2edge_export.loaders.hugging_face.weights import (
    POSITIONS,
    TIED,
    find_embeddings,
    give_model_names,
    position_tables,
    read_weights,
    shape_bias,
    weight_map,
)
from seq2edge_export.loaders.positions import fill_positions, with_positions
from seq2edge_export.loaders.state_dict import StoredTensors
from seq2edge_export.loaders.tokenizer_files import with_bundle_names
from seq2edge_export.loaders.weight_map import fill, mismatches
from seq2edge_export.model.transformer import Transformer, without_weights

ReadText = Callable[[Path, HuggingFaceConfig, GenerationOptions], HuggingFaceText]


def load_folder(folder: Path, family: str, traits: Traits, read_text: ReadText) -> Checkpoint:
    """Load a folder; one error lists everything that is not supported."""
    config, content = read_config(folder, dict(traits.defaults))
    problems = unsupported(config, content, traits.fixed)
    generation = read_generation(folder, content, problems)
    text = None
    if generation is not None:
        try:
            text = read_text(folder, config, generation)
        except (DataError, CheckpointError) as error:
            problems.append(str(error))
    if problems or generation is None or text is None:
        raise CheckpointError(f"{folder} is not supported by the family {family}: {listed(problems)}")
    model = build(folder, config, traits, read_weights(folder))
    tokenization, files = with_bundle_names(text.tokenization, folder)
    tokens = _special_tokens(config, generation, text)
    checkpoint_config = config_of(folder, model.architecture, tokens, tokenization, text.languages, content)
    generation = _with_target_tag(generation, text.languages)
    generation = _limited(generation, model.architecture.max_positions)
    return Checkpoint(family, checkpoint_config, generation, model, tokenization, files, text.languages)


def config_of(
    folder: Path,
    architecture: Architecture,
    tokens: SpecialTokens,
    tokenization: Tokenization,
    languages: Languages,
    content: Settings,
) -> CheckpointConfig:
    """Return the config of a checkpoint, with the licence and attribution of a folder."""
    names, license = (languages.source, languages.target), read_license(folder)
    return CheckpointConfig.create(
        architecture, tokens, tokenization, names, license=license, attribution=attribution(content)
    )


def build(folder: Path, config: HuggingFaceConfig, traits: Traits, state: StoredTensors) -> Transformer:
    """Build the model; one error lists every tensor that does not match, before memory is allocated."""
    give_model_names(state)
    shape_bias(state)
    problems: list[str] = []
    embeddings = find_embeddings(config, state, problems)
    tables = position_tables(traits.positions, config, state, problems)
    architecture = architecture_of(
        folder, config, traits, joint=embeddings.joint, tied=embeddings.tied, output_bias=embeddings.bias
    )
    mappings = [*embeddings.weight_map(), *weight_map(architecture)]
    problems += mismatches(state, mappings, without_weights(architecture), ignored=(*TIED, *POSITIONS.values()))
    if problems:
        raise CheckpointError(f"the tensors of {folder} do not match its config.json: {listed(problems)}")
    model = without_weights(with_positions(architecture, tables.values(), ("sinusoidal_halves",)))
    fill(model, mappings, state)
    fill_positions(model, tables)
    return model.eval()


def _special_tokens(config: HuggingFaceConfig, generation: GenerationOptions, text: HuggingFaceText) -> SpecialTokens:
    bos = generation.decoder_start_token_id if text.bos is None else text.bos
    return SpecialTokens(pad=config.pad_token_id, bos=bos, eos=config.eos, unk=text.unk)


def _with_target_tag(generation: GenerationOptions, languages: Languages) -> GenerationOptions:
    """Force the tag of the target language, if the folder names one."""
    if not languages.target or languages.target_tag not in ("first", "start"):
        return generation
    tag = languages.codes[languages.target]
    if languages.target_tag == "first":
        return replace(generation, forced_bos_token_id=tag)
    return replace(generation, decoder_start_token_id=tag)


def _limited(generation: GenerationOptions, positions: int) -> GenerationOptions:
    """Limit the output to the positions of the model, after which transformers would fail."""
    if generation.longest(1) - 1 <= positions:
        return generation
    return generation.within(1 + positions, prefix_length=1)


NAME = re.compile(r"[A-Za-z0-9][\w.\-]*/[A-Za-z0-9][\w.\-]*")
FILES = ["*.json", "*.txt", "*.spm", "*.model", "README.md"]
WEIGHTS = (["model*.safetensors"], ["pytorch_model*.bin"])  # the second only if the first is missing


def is_hub_name(path: Path) -> bool:
    """Return whether a path looks like a name on the Hub, and neither it nor its parent folder exists here."""
    return NAME.fullmatch(path.as_posix()) is not None and not path.exists() and not path.parent.exists()


def download(name: str) -> Path:
    """Download a model without the files of other frameworks, and return its folder; cached files are reused."""
    with imports_of_extras():
        import huggingface_hub
        from huggingface_hub.errors import LocalEntryNotFoundError
        from huggingface_hub.utils.tqdm import disable_progress_bars
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        for weights in WEIGHTS:
            folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=[*FILES, *weights]))
            if any(folder.glob(weights[0])):
                break
    except LocalEntryNotFoundError:
        raise CheckpointError(
            f"{name} is not a folder, and the Hugging Face Hub, where it could be a model, cannot be reached "
            "(nor was it downloaded before): connect to the network, or name the path of a folder"
        ) from None
    except Exception as error:  # of the network, the Hub or the disk
        reason = str(error).strip().split("\n")[0]
        raise CheckpointError(
            f"{name} is not a folder, and cannot be downloaded from the Hugging Face Hub ({reason})"
        ) from None
    return folder
