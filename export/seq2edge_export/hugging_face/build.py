"""The one Transformer from the settings and tensors of BART or a descendant of it; needs torch."""

from pathlib import Path

from seq2edge.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge_export.hugging_face.config import ACTIVATIONS, Config
from seq2edge_export.hugging_face.embeddings import Embeddings, find_embeddings, shape_bias
from seq2edge_export.hugging_face.places import POSITIONS, TIED, give_model_names, places
from seq2edge_export.hugging_face.positions import fill_positions, find_tables, with_positions
from seq2edge_export.hugging_face.traits import Traits
from seq2edge_export.model import Transformer, without_weights
from seq2edge_export.placing import fill, tensor_problems
from seq2edge_export.stored_tensors import StoredTensors


def build(folder: Path, config: Config, traits: Traits, state: StoredTensors) -> Transformer:
    """The model itself, every tensor in its place; what does not fit is in one error."""
    give_model_names(state)
    shape_bias(state)
    problems: list[str] = []
    embeddings = find_embeddings(config, state, problems)
    tables = find_tables(traits.table, config, state, problems)
    shape = _shape(folder, config, traits, embeddings)
    found = [*embeddings.places(), *places(shape)]
    # shapes alone: sizes that do not fit together could ask for any amount of memory
    problems += tensor_problems(state, found, without_weights(shape), ignored=(*TIED, *POSITIONS.values()))
    if problems:
        raise CheckpointError(
            f"{folder} does not hold the Transformer that its config describes: {'; '.join(problems)}"
        )
    model = without_weights(with_positions(shape, tables))
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
