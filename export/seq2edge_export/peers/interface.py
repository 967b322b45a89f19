"""Functions shared by the peers: load the source model, measure folders, translate search options."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2edge.bench.system import PeerRequest
from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import CheckpointError

if TYPE_CHECKING:
    from seq2edge_export.model.transformer import Transformer
    from seq2edge_export.source_model import SourceModel

# Options that have the same name and meaning in transformers.
SAME_OPTIONS = (
    *("num_beams", "length_penalty", "early_stopping", "no_repeat_ngram_size", "repetition_penalty"),
    *("suppress_tokens", "forced_bos_token_id", "renormalize_logits"),
)


def load_source_model(request: PeerRequest) -> "SourceModel":
    """Load the checkpoint and check that all bundles were made from it."""
    from seq2edge_export.loaders import load_checkpoint
    from seq2edge_export.verify import check_same_model

    source_model = load_checkpoint(request.checkpoint).source_model()
    for bundle in request.bundles:
        check_same_model(bundle, source_model)
    return source_model


def transformer_of(source_model: "SourceModel") -> "Transformer":
    from seq2edge_export.model.transformer import Transformer

    model = getattr(source_model.graphs.reference.encoder, "model", None)
    if not isinstance(model, Transformer):
        raise CheckpointError("a user's own module cannot be converted for another tool; leave out --against")
    return model


def folder_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def generate_arguments(options: GenerationOptions) -> dict[str, Any]:
    """Return the search options as arguments of transformers' ``generate``; the start token is in the model folder."""
    arguments = {name: getattr(options, name) for name in SAME_OPTIONS if getattr(options, name) is not None}
    if options.bad_words_ids is not None:
        arguments["bad_words_ids"] = [list(word) for word in options.bad_words_ids]
    if options.suppress_tokens is not None:
        arguments["suppress_tokens"] = list(options.suppress_tokens)
    lengths = {"max_new_tokens": options.longest(1) - 1, "min_new_tokens": max(0, options.shortest(1) - 1)}
    return {**arguments, **lengths, "do_sample": False}
