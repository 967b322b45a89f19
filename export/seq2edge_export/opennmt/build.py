"""Put the tensors of a checkpoint together to our Transformer, or say what does not fit; needs torch."""

import torch

from seq2edge.errors import CheckpointError
from seq2edge_export.model import Transformer
from seq2edge_export.opennmt.given import Given
from seq2edge_export.opennmt.layout import OUTPUT, places
from seq2edge_export.opennmt.positions import fill_positions, find_tables, with_positions
from seq2edge_export.opennmt.settings import check_numbers
from seq2edge_export.opennmt.shape import shape_of, with_all_heads
from seq2edge_export.placing import Place, fill, misfit
from seq2edge_export.state_dict import StateDict


def build(given: Given) -> Transformer:
    """The model itself, every tensor in its place; what does not fit is in one error."""
    check_numbers(given.settings, str(given.path))
    shape = shape_of(given)
    state = with_all_heads(given, shape)
    found = places(shape, given.layout, state)
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


def _tensor_problems(given: Given, state: StateDict, found: list[Place], model: Transformer) -> list[str]:
    names = {place.theirs for place in found}
    problems = [f"{name} is missing" for name in sorted(names - state.keys())]
    problems += [f"{name} has no place in it" for name in state if name not in names | _besides(given)]
    return problems + [
        text for place in found if place.theirs in state if (text := misfit(place, state[place.theirs], model))
    ]


def _besides(given: Given) -> set[str]:
    """What is looked at elsewhere or not used: positions, tables that are the same as another, leftovers."""
    layout = given.layout
    positions = (*layout.source_positions, *layout.target_positions) if given.settings.positions else ()
    unused = {name for name in given.state if layout.unused and name.endswith(layout.unused)}
    return unused | {layout.target, f"{OUTPUT}.weight", *positions}
