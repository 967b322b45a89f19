"""Load checkpoints of OpenNMT-py 3 (``.pt``) and folders of eole, its successor."""

from dataclasses import replace
from pathlib import Path

from seq2edge.config.architecture import Positions
from seq2edge.errors import CheckpointError, listed
from seq2edge_export.checkpoint import Checkpoint, CheckpointConfig
from seq2edge_export.loaders.opennmt.config import (
    OpenNmtSettings,
    architecture_of,
    read_generation,
    read_settings,
    unsupported,
)
from seq2edge_export.loaders.opennmt.files import (
    OpenNmtFiles,
    is_eole_folder,
    is_pt_file,
    read_eole_folder,
    read_pt_file,
)
from seq2edge_export.loaders.opennmt.vocabulary import read_text, special_tokens, tokenization_of, unsupported_text
from seq2edge_export.loaders.opennmt.weights import (
    LAYOUTS,
    ignored_tensors,
    position_tables,
    unsupported_tensors,
    weight_map,
    with_all_heads,
)
from seq2edge_export.loaders.positions import Tables, fill_positions, with_positions
from seq2edge_export.loaders.tokenizer_files import TokenizerChoice, with_bundle_names
from seq2edge_export.loaders.weight_map import fill, mismatches
from seq2edge_export.model.transformer import Transformer, without_weights

FORMULAS: tuple[Positions, ...] = ("sinusoidal", "sinusoidal_halves")


def recognizes(path: Path) -> bool:
    return is_pt_file(path) if path.is_file() else is_eole_folder(path)


def load_opennmt(path: Path, choice: TokenizerChoice | None = None) -> Checkpoint:
    """Load a checkpoint or a folder; one error lists everything that is not supported."""
    files = read_eole_folder(path) if path.is_dir() else read_pt_file(path)
    settings, text = read_settings(files), read_text(files)
    problems = [*unsupported(files, settings), *unsupported_tensors(files.state)]
    problems += [] if choice else unsupported_text(text)
    if problems:
        raise CheckpointError(f"{path} is not supported by the family opennmt: {listed(problems)}")
    model = build(files, settings)
    tokens = special_tokens(text, model.architecture)
    tokenization, tokenizer_files = with_bundle_names(tokenization_of(text, choice), files.folder)
    config = CheckpointConfig.create(model.architecture, tokens, tokenization)
    generation = read_generation(files, tokens, text.target, model.architecture)
    return Checkpoint("opennmt", config, generation, model, tokenization, tokenizer_files)


def build(files: OpenNmtFiles, settings: OpenNmtSettings) -> Transformer:
    """Build the model; one error lists every tensor that does not match, before memory is allocated."""
    problems: list[str] = []
    layout, architecture = LAYOUTS[files.framework], architecture_of(files, settings)
    state = with_all_heads(files.state, settings.key_heads, architecture)
    mappings = weight_map(architecture, layout, state)
    tables: Tables = {}
    if settings.positions:
        first, scaled = settings.first_position, settings.scaled_positions
        tables = position_tables(layout, state, architecture.width, problems, first=first, scaled=scaled)
    ignored = ignored_tensors(layout, state, positions=settings.positions)
    problems += mismatches(state, mappings, without_weights(architecture), ignored=ignored)
    if problems:
        raise CheckpointError(f"the tensors of {files.path} do not match its settings: {listed(problems)}")
    if tables:
        architecture = replace(architecture, max_positions=len(tables["encoder"]))
        architecture = with_positions(architecture, tables.values(), FORMULAS)
    model = Transformer(architecture)
    fill(model, mappings, state)
    fill_positions(model, tables)
    return model.eval()
