"""The ctranslate2 family: folders that CTranslate2 runs, and packages of Argos Translate."""

from pathlib import Path

import torch

from seq2edge.config.generation import GenerationOptions
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError
from seq2edge_export.checkpoint import FORMAT_VERSION, Checkpoint, CheckpointConfig
from seq2edge_export.loaders.ctranslate2.config import fill_positions, shape_of, stack_of, unsupported, with_positions
from seq2edge_export.loaders.ctranslate2.files import MODEL, Binary, Package, is_package, open_package, read_binary
from seq2edge_export.loaders.ctranslate2.vocabulary import (
    TokenSettings,
    Vocabularies,
    read_settings,
    read_vocabularies,
    special_tokens,
    tokenization_of,
    unsupported_text,
)
from seq2edge_export.loaders.ctranslate2.weights import POSITIONS, weight_map, widen
from seq2edge_export.loaders.marian.files import begins_as_marian
from seq2edge_export.loaders.recipe.files import tokenizer_files
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.loaders.weight_map import WeightMapping, fill, shape_mismatch
from seq2edge_export.model.transformer import Transformer

BEAMS = 4  # as Argos Translate searches
FEWEST, MOST = 1, 256  # tokens that CTranslate2 makes


def recognises(path: Path) -> bool:
    return is_package(path) and not begins_as_marian(path / MODEL)  # Marian gives its files the same name


def load_ctranslate2(path: Path) -> Checkpoint:
    """Read a model that CTranslate2 could run; whatever ours cannot do is in one error."""
    package = open_package(path)
    binary = read_binary(package.model / MODEL)
    settings, known = read_settings(package.model, binary), read_vocabularies(package.model)
    _refuse(path, binary, settings, known)
    model = build(binary, settings.epsilon)
    tokens = special_tokens(settings, known, model.shape)
    rules = tokenization_of(settings, known, package.source_pieces, package.target_pieces)
    rules, files = tokenizer_files(rules, package.model)
    config = _config(package, model, tokens, rules)
    return Checkpoint("ctranslate2", config, _generation(tokens, model), model, rules, files)


def build(binary: Binary, epsilon: float) -> Transformer:
    """The model itself, every variable in its place."""
    state = widen(binary.variables)
    shape = shape_of(binary, state, stack_of("encoder", binary), epsilon)
    found = weight_map(shape, state)
    with torch.device("meta"):  # shapes alone: sizes that do not fit together could ask for any amount of memory
        problems = _tensor_problems(state, found, Transformer(shape))
    if problems:
        raise CheckpointError(f"{MODEL} does not hold the Transformer that it describes: {'; '.join(problems)}")
    model = Transformer(with_positions(shape, state))
    fill(model, found, state)
    fill_positions(model, state)
    return model.eval()


def _refuse(path: Path, binary: Binary, settings: TokenSettings, known: Vocabularies) -> None:
    problems = unsupported(binary, stack_of("encoder", binary), stack_of("decoder", binary))
    problems += unsupported_text(settings, known)
    if problems:
        raise CheckpointError(f"{path} has what this family cannot express: {'; '.join(problems)}")


def _tensor_problems(state: StateDict, found: list[WeightMapping], model: Transformer) -> list[str]:
    names = {place.theirs for place in found}
    problems = [f"{name} is missing" for name in sorted(names - state.keys())]
    surplus = [name for name in state if "/" in name and name not in {*names, *POSITIONS.values()}]
    problems += [f"{name} has no place in it" for name in surplus]
    return problems + [
        text for place in found if place.theirs in state if (text := shape_mismatch(place, state[place.theirs], model))
    ]


def _generation(tokens: SpecialTokens, model: Transformer) -> GenerationOptions:
    return GenerationOptions(
        decoder_start_token_id=tokens.bos,
        eos_token_id=tokens.eos,
        pad_token_id=tokens.pad,
        num_beams=BEAMS,
        min_new_tokens=FEWEST,
        max_new_tokens=min(MOST, model.shape.max_positions),
    )


def _config(package: Package, model: Transformer, tokens: SpecialTokens, rules: Tokenization) -> CheckpointConfig:
    source, target = package.languages
    return CheckpointConfig(
        format_version=FORMAT_VERSION,
        architecture=model.shape,
        tokens=tokens,
        source_tokenizer=rules.source,
        target_tokenizer=rules.target,
        source_language=source,
        target_language=target,
        attribution=package.attribution,
    )
