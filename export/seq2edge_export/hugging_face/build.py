"""The one Transformer from the settings and tensors of BART or a descendant of it; needs torch."""

from pathlib import Path

import torch

from seq2edge.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge_export.hugging_face.config import ACTIVATIONS, Config
from seq2edge_export.hugging_face.embeddings import Embeddings, find_embeddings, without_empty_bias
from seq2edge_export.hugging_face.places import POSITIONS, TIED, places, with_model_names
from seq2edge_export.hugging_face.positions import fill_positions, find_tables, with_positions
from seq2edge_export.hugging_face.traits import Traits
from seq2edge_export.model import Transformer
from seq2edge_export.placing import Place, fill, misfit
from seq2edge_export.state_dict import StateDict


def build(folder: Path, config: Config, traits: Traits, state: StateDict) -> Transformer:
    """The model itself, every tensor in its place; what does not fit is in one error."""
    state = without_empty_bias(with_model_names(state))
    problems: list[str] = []
    embeddings = find_embeddings(config, state, problems)
    tables = find_tables(traits.table, config, state, problems)
    shape = _shape(folder, config, traits, embeddings)
    found = [*embeddings.places(), *places(shape)]
    with torch.device("meta"):  # shapes alone: sizes that do not fit together could ask for any amount of memory
        problems += _tensor_problems(state, found, Transformer(shape))
    if problems:
        raise CheckpointError(
            f"{folder} does not hold the Transformer that its config describes: {'; '.join(problems)}"
        )
    model = Transformer(with_positions(shape, tables))
    fill(model, found, state)
    fill_positions(model, tables)
    return model.eval()


def _shape(folder: Path, config: Config, traits: Traits, embeddings: Embeddings) -> Architecture:
    try:
        return Architecture(
            source_vocabulary=config.vocab_size,
            target_vocabulary=config.target_vocabulary,
            width=config.d_model,
            heads=config.encoder_attention_heads,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            feed_forward=config.encoder_ffn_dim,
            activation=ACTIVATIONS[config.activation_function],
            norm_first=traits.norm_first,
            final_norm=traits.final_norm,
            embedding_norm=traits.embedding_norm,
            positions="none",
            max_positions=config.max_position_embeddings,
            joint_vocabulary=embeddings.joint,
            tied_output=embeddings.tied,
            output_bias=embeddings.bias,
            embedding_scale=None if config.scale_embedding else 1.0,
        )
    except ValueError as error:
        raise CheckpointError(f"the settings in {folder} do not fit together: {error}") from None


def _tensor_problems(state: StateDict, found: list[Place], model: Transformer) -> list[str]:
    names = {place.theirs for place in found}
    problems = [f"{name} is missing" for name in sorted(names - state.keys() - set(TIED))]
    surplus = [name for name in state if name not in {*names, *TIED, *POSITIONS.values()}]
    problems += [f"{name} has no place in it" for name in surplus]
    return problems + [
        text for place in found if place.theirs in state if (text := misfit(place, state[place.theirs], model))
    ]
