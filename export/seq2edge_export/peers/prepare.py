"""Write a checkpoint as the peers want it; needs torch."""

import importlib
from collections.abc import Sequence
from pathlib import Path

from seq2edge.bench.plan import Peers
from seq2edge.bench.system import SystemPlan
from seq2edge.bundle import Bundle
from seq2edge_export.families import load_checkpoint
from seq2edge_export.peers import MODULES
from seq2edge_export.peers.request import Request
from seq2edge_export.verify.kinship import check_kinship


def prepare(peers: Peers, bundles: Sequence[Bundle], precisions: Sequence[str], folder: Path) -> list[SystemPlan]:
    """Write the checkpoint for each peer into a folder of its own; all bundles have to be made from it."""
    assert peers.checkpoint is not None
    original = load_checkpoint(peers.checkpoint).original()
    for bundle in bundles:
        check_kinship(bundle, original)
    plans: list[SystemPlan] = []
    for name in peers.names:
        (folder / name).mkdir()
        request = Request(
            original=original,
            checkpoint=peers.checkpoint,
            precisions=tuple(precisions),
            folder=folder / name,
            optimum_python=peers.optimum_python,
        )
        plans += importlib.import_module(f"{MODULES[name]}_model").prepare(request)
    return plans
