"""What a peer is given to prepare itself.

The options of the search as arguments of Hugging Face's ``generate``.

Write a checkpoint as the peers want it.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2edge.bench.plan import Peers
from seq2edge.bench.system import SystemPlan
from seq2edge.bundle.bundle import Bundle
from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.peers import MODULES
from seq2edge_export.source_model import SourceModel
from seq2edge_export.verify import check_same_model


@dataclass(frozen=True, kw_only=True)
class PeerRequest:
    """The model, where it came from, and a folder to write to."""

    original: SourceModel
    checkpoint: Path
    precisions: tuple[str, ...]  # wanted beside those of the bundles: fp32, int8
    folder: Path
    optimum_python: Path | None = None

    @property
    def model(self) -> Transformer:
        return transformer_of(self.original)


def transformer_of(original: SourceModel) -> Transformer:
    """The model of an original; a module of its own kind has no place in any other tool."""
    model = getattr(original.graphs.encoder, "model", None)
    if not isinstance(model, Transformer):
        raise CheckpointError("a module of its own kind cannot be given to another tool; leave out --against")
    return model


def folder_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


AS_THEY_ARE = (
    *("num_beams", "length_penalty", "early_stopping", "no_repeat_ngram_size", "repetition_penalty"),
    *("suppress_tokens", "forced_bos_token_id", "renormalize_logits"),
)


def generate_arguments(options: GenerationOptions) -> dict[str, Any]:
    """Every option has its name there; the start token is the folder's."""
    found = {name: getattr(options, name) for name in AS_THEY_ARE if getattr(options, name) is not None}
    if options.bad_words_ids is not None:
        found["bad_words_ids"] = [list(word) for word in options.bad_words_ids]
    if options.suppress_tokens is not None:
        found["suppress_tokens"] = list(options.suppress_tokens)
    lengths = {"max_new_tokens": options.longest(1) - 1, "min_new_tokens": max(0, options.shortest(1) - 1)}
    return {**found, **lengths, "do_sample": False}


def prepare(peers: Peers, bundles: Sequence[Bundle], precisions: Sequence[str], folder: Path) -> list[SystemPlan]:
    """Write the checkpoint for each peer into a folder of its own; all bundles have to be made from it."""
    assert peers.checkpoint is not None
    original = load_checkpoint(peers.checkpoint).original()
    for bundle in bundles:
        check_same_model(bundle, original)
    plans: list[SystemPlan] = []
    for name in peers.names:
        (folder / name).mkdir()
        request = PeerRequest(
            original=original,
            checkpoint=peers.checkpoint,
            precisions=tuple(precisions),
            folder=folder / name,
            optimum_python=peers.optimum_python,
        )
        plans += importlib.import_module(f"{MODULES[name]}_model").prepare(request)
    return plans
