"""Load CTranslate2 models and packages of Argos Translate."""

from dataclasses import replace
from pathlib import Path

from seq2edge.config.architecture import Positions
from seq2edge.errors import CheckpointError, listed
from seq2edge_export.checkpoint import Checkpoint, CheckpointConfig
from seq2edge_export.loaders.ctranslate2.config import (
    TokenSettings,
    architecture_of,
    read_generation,
    read_settings,
    stack_of,
    unsupported,
)
from seq2edge_export.loaders.ctranslate2.files import MODEL, Binary, is_package, open_package, read_binary
from seq2edge_export.loaders.ctranslate2.vocabulary import (
    Vocabularies,
    read_vocabularies,
    special_tokens,
    tokenization_of,
    unsupported_text,
)
from seq2edge_export.loaders.ctranslate2.weights import POSITIONS, position_tables, to_float32, weight_map
from seq2edge_export.loaders.marian.files import begins_as_marian
from seq2edge_export.loaders.positions import fill_positions, with_positions
from seq2edge_export.loaders.tokenizer_files import TokenizerChoice, find_sentencepiece, with_bundle_names
from seq2edge_export.loaders.weight_map import fill, mismatches
from seq2edge_export.model.transformer import Transformer, without_weights

FORMULAS: tuple[Positions, ...] = ("sinusoidal_halves", "sinusoidal")


def recognizes(path: Path) -> bool:
    return is_package(path) and not begins_as_marian(path / MODEL)  # Marian uses the same file name


def load_ctranslate2(path: Path, choice: TokenizerChoice | None = None) -> Checkpoint:
    """Load a model folder or an Argos package; one error lists everything that is not supported."""
    package = open_package(path)
    binary = read_binary(package.model / MODEL)
    settings, vocabularies = read_settings(package.model, binary), read_vocabularies(package.model)
    _check_supported(path, binary, settings, vocabularies)
    choice = choice or TokenizerChoice("pieces", find_sentencepiece(package.folder, package.model))
    model = build(binary, settings.epsilon)
    tokens = special_tokens(settings, vocabularies, model.architecture)
    tokenization = tokenization_of(settings, vocabularies, tokens, choice)
    tokenization, files = with_bundle_names(tokenization, package.model)
    config = CheckpointConfig.create(
        model.architecture, tokens, tokenization, package.languages, attribution=package.attribution
    )
    return Checkpoint("ctranslate2", config, read_generation(tokens, model.architecture), model, tokenization, files)


def _check_supported(path: Path, binary: Binary, settings: TokenSettings, vocabularies: Vocabularies) -> None:
    problems = unsupported(binary, stack_of("encoder", binary), stack_of("decoder", binary))
    problems += unsupported_text(settings, vocabularies)
    if problems:
        raise CheckpointError(f"{path} is not supported by the family ctranslate2: {listed(problems)}")


def build(binary: Binary, epsilon: float) -> Transformer:
    """Build the model; one error lists every tensor that does not match, before memory is allocated."""
    state = to_float32(binary.variables)
    architecture = architecture_of(binary, state, stack_of("encoder", binary), epsilon)
    mappings = weight_map(architecture, state)
    ignored = {*POSITIONS.values(), *(name for name in state if "/" not in name)}
    # nothing is allocated before it is checked
    if problems := mismatches(state, mappings, without_weights(architecture), ignored=ignored):
        raise CheckpointError(f"the variables of {MODEL} do not match each other: {listed(problems)}")
    tables = position_tables(state, architecture.width)
    architecture = replace(architecture, max_positions=len(tables["encoder"]))
    model = Transformer(with_positions(architecture, tables.values(), FORMULAS))
    fill(model, mappings, state)
    fill_positions(model, tables)
    return model.eval()
