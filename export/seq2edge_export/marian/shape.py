"""The shape of the model that Marian's settings describe; needs nothing."""

from pathlib import Path

from seq2edge.architecture import Architecture
from seq2edge.errors import CheckpointError
from seq2edge_export.marian.config import Config

EPSILON = 1e-6  # of all norms
POSITIONS = 512  # Marian computes as many as are wanted; students have hardly seen so many


def shape_of(path: Path, config: Config) -> Architecture:
    try:
        return Architecture(
            source_vocabulary=config.vocabularies[0],
            target_vocabulary=config.vocabularies[1],
            width=config.width,
            heads=config.heads,
            encoder_layers=config.encoder_layers,
            decoder_layers=len(config.decoder_layers),
            decoder_cell=config.decoder_cell,
            feed_forward=config.feed_forward,
            activation=config.activation,
            norm=config.norm,
            norm_first=config.norm_first,
            final_norm=config.final_norm,
            positions=config.positions,
            max_positions=POSITIONS,
            joint_vocabulary=config.source_embedding == config.target_embedding,
            tied_output=config.tied_output,
            output_bias=config.output_bias,
            embedding_scale=1.0 if config.positions == "none" else None,
            embedding_norm=config.embedding_norm,
            zero_start=True,
            norm_epsilon=EPSILON,
        )
    except ValueError as error:
        raise CheckpointError(f"the settings in {path} do not fit together: {error}") from None
