"""The opennmt family: checkpoints of OpenNMT-py 3 (``.pt``) and folders of eole, its successor.

The position tables of OpenNMT-py and eole, computed or learned; both are stored.

Put the tensors of a checkpoint together to our Transformer, or say what does not fit.
"""

import math
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from seq2edge.config.architecture import Architecture, Positions
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import CheckpointError
from seq2edge_export.checkpoint import FORMAT_VERSION, Checkpoint, CheckpointConfig
from seq2edge_export.loaders.opennmt.config import (
    LONGEST,
    OpenNmtCheckpoint,
    check_numbers,
    generation_of,
    shape_of,
    unsupported_search,
    unsupported_settings,
    unsupported_tensors,
    with_all_heads,
)
from seq2edge_export.loaders.opennmt.files import is_eole_folder, is_pt_file, read_eole_folder, read_pt_file
from seq2edge_export.loaders.opennmt.vocabulary import special_tokens, tokenization_of, unsupported_text
from seq2edge_export.loaders.opennmt.weights import OUTPUT, weight_map
from seq2edge_export.loaders.recipe.config import as_table, is_sinusoidal
from seq2edge_export.loaders.recipe.files import tokenizer_files
from seq2edge_export.loaders.state_dict import StateDict
from seq2edge_export.loaders.weight_map import WeightMapping, fill, shape_mismatch
from seq2edge_export.model.transformer import Transformer

FORMULAS: tuple[Positions, ...] = ("sinusoidal", "sinusoidal_halves")
Tables = tuple[Tensor, ...]  # of source and target; none where the model has no positions


def find_tables(given: OpenNmtCheckpoint, width: int, problems: list[str]) -> Tables:
    """The rows of source and target that can be used, with the numbers that are added to the vectors of tokens."""
    if not given.settings.positions:
        return ()
    sides = (given.layout.source_positions, given.layout.target_positions)
    found = [_find(given, names, width, problems) for names in sides]
    rows = min(LONGEST, *(len(table) for table in found))
    return tuple(table[:rows] for table in found)


def with_positions(shape: Architecture, tables: Tables) -> Architecture:
    """The same with the positions that the tables are: those of a formula, if there is one."""
    if not tables:
        return shape
    shape = replace(shape, positions="learned", max_positions=len(tables[0]))
    for kind in FORMULAS if shape.width % 2 == 0 else ():
        like = replace(shape, positions=kind)
        if all(is_sinusoidal(table, like) for table in tables):
            return like
    return shape


def fill_positions(model: Transformer, tables: Tables) -> None:
    """Take the tables as they are, computed ones too, so that not even their rounding differs."""
    embeddings = (model.source_embedding, model.target_embedding)
    for embedding, table in zip(embeddings, tables, strict=bool(tables)):
        assert embedding.positions is not None
        with torch.no_grad():
            embedding.positions.copy_(table)


def _find(given: OpenNmtCheckpoint, names: tuple[str, ...], width: int, problems: list[str]) -> Tensor:
    name = next((name for name in names if name in given.state), names[0])
    if name not in given.state:
        problems.append(f"{name} is missing")
        return torch.zeros(1, width)
    table = as_table(given.state[name])[given.settings.first_position :]
    if table.dim() != 2 or table.shape[1] != width or not len(table) or not torch.isfinite(table).all():
        problems.append(
            f"{name} has the shape {tuple(given.state[name].shape)} instead of (positions, {width}), or NaN"
        )
        return torch.zeros(1, width)
    return table * math.sqrt(width) if given.settings.scaled_positions else table


def build(given: OpenNmtCheckpoint) -> Transformer:
    """The model itself, every tensor in its place; what does not fit is in one error."""
    check_numbers(given.settings, str(given.path))
    shape = shape_of(given)
    state = with_all_heads(given, shape)
    found = weight_map(shape, given.layout, state)
    problems: list[str] = []
    tables = find_tables(given, shape.width, problems)
    with torch.device("meta"):  # shapes alone: sizes that do not fit together could ask for any amount of memory
        problems += _tensor_problems(given, state, found, Transformer(shape))
    if problems:
        raise CheckpointError(f"{given.path} does not hold the Transformer that it describes: {'; '.join(problems)}")
    model = Transformer(with_positions(shape, tables))
    fill(model, found, state)
    fill_positions(model, tables)
    return model.eval()


def _tensor_problems(
    given: OpenNmtCheckpoint, state: StateDict, found: list[WeightMapping], model: Transformer
) -> list[str]:
    names = {place.theirs for place in found}
    problems = [f"{name} is missing" for name in sorted(names - state.keys())]
    problems += [f"{name} has no place in it" for name in state if name not in names | _besides(given)]
    return problems + [
        text for place in found if place.theirs in state if (text := shape_mismatch(place, state[place.theirs], model))
    ]


def _besides(given: OpenNmtCheckpoint) -> set[str]:
    """What is looked at elsewhere or not used: positions, tables that are the same as another, leftovers."""
    layout = given.layout
    positions = (*layout.source_positions, *layout.target_positions) if given.settings.positions else ()
    unused = {name for name in given.state if layout.unused and name.endswith(layout.unused)}
    return unused | {layout.target, f"{OUTPUT}.weight", *positions}


def recognises(path: Path) -> bool:
    return is_pt_file(path) if path.is_file() else is_eole_folder(path)


def load_opennmt(path: Path) -> Checkpoint:
    """Read a model that OpenNMT-py or eole could run; whatever ours cannot do is in one error."""
    given = read_eole_folder(path) if path.is_dir() else read_pt_file(path)
    _refuse(given)
    model = build(given)
    tokens = special_tokens(given, model.shape)
    rules, files = tokenizer_files(tokenization_of(given), given.folder)
    return Checkpoint(
        "opennmt", _config(model, tokens, rules), generation_of(given, tokens, model.shape), model, rules, files
    )


def _refuse(given: OpenNmtCheckpoint) -> None:
    problems = [*given.problems, *unsupported_settings(given.settings), *unsupported_text(given)]
    problems += [*unsupported_tensors(given.state), *unsupported_search(given.search)]
    if problems:
        raise CheckpointError(f"{given.path} has what this family cannot express: {'; '.join(problems)}")


def _config(model: Transformer, tokens: SpecialTokens, rules: Tokenization) -> CheckpointConfig:
    return CheckpointConfig(
        format_version=FORMAT_VERSION,
        architecture=model.shape,
        tokens=tokens,
        source_tokenizer=rules.source,
        target_tokenizer=rules.target,
        source_language="",
        target_language="",
    )
