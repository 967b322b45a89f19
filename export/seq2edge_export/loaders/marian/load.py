"""Load Marian's own model files, such as the student models of Bergamot and Firefox."""

from dataclasses import replace
from pathlib import Path

from seq2edge.errors import CheckpointError, listed
from seq2edge_export.checkpoint import Checkpoint, CheckpointConfig
from seq2edge_export.loaders.hugging_face.config import read_license
from seq2edge_export.loaders.marian.config import (
    MarianConfig,
    architecture_of,
    read_config,
    read_generation,
    unsupported_search,
)
from seq2edge_export.loaders.marian.files import find_files, is_model, read_embedded_settings, read_items
from seq2edge_export.loaders.marian.vocabulary import read_tokenization, unsupported_vocabularies
from seq2edge_export.loaders.marian.weights import (
    fill_neutral,
    omitted_mappings,
    to_float32,
    unsupported_weights,
    weight_map,
)
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.loaders.tokenizer_files import TokenizerChoice, with_bundle_names
from seq2edge_export.loaders.weight_map import fill, mismatches
from seq2edge_export.model.transformer import Transformer, without_weights

FAMILY = "marian-native"

recognizes = is_model


def load_marian_native(path: Path, choice: TokenizerChoice | None = None) -> Checkpoint:
    """Load a model file, or the one in a folder; one error lists everything that is not supported."""
    files = find_files(path)
    items = read_items(files.model)
    config, problems = read_config(read_embedded_settings(files.model, items))
    problems += [*unsupported_weights(items), *unsupported_search(files.search), *unsupported_vocabularies(files)]
    if problems:
        raise CheckpointError(f"{files.model} is not supported by the family {FAMILY}: {listed(problems)}")
    model = build(files.model, config, to_float32(files.model, items))
    tokenization, tokens = read_tokenization(files, config.vocabularies, choice)
    tokenization, tokenizer_files = with_bundle_names(tokenization, files.model.parent)
    license = read_license(files.model.parent)
    checkpoint_config = CheckpointConfig.create(model.architecture, tokens, tokenization, license=license)
    generation = read_generation(files.search, tokens)
    return Checkpoint(FAMILY, checkpoint_config, generation, model, tokenization, tokenizer_files)


def build(path: Path, config: MarianConfig, state: StateDict) -> Transformer:
    """Build the model; one error lists every tensor that does not match, before memory is allocated."""
    depth = config.encoder_layers + len(config.decoder_layers)
    if depth > len(state):
        raise CheckpointError(f"{path} should have {depth:,} layers, but holds only {len(state):,} tensors")
    architecture = architecture_of(path, config)
    mappings = weight_map(config, architecture, state)
    omitted = omitted_mappings(config, mappings, state)
    stored = [mapping for mapping in mappings if mapping not in omitted]
    shapes = without_weights(replace(architecture, positions="none"))  # nothing is allocated before it is checked
    if problems := mismatches(state, stored, shapes):
        raise CheckpointError(f"the tensors of {path} do not match its settings: {listed(problems)}")
    model = Transformer(architecture)
    fill(model, stored, state)
    fill_neutral(model, omitted)
    return model.eval()
