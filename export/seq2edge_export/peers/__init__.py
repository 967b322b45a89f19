"""Other tools with the same weights, for ``seq2edge bench --against``: a table of them.

A peer is two modules. ``NAME.py`` opens a model and needs only what the tool's users need, so that its memory is the
tool's; ``NAME_model.py`` writes the weights of a checkpoint for it, and needs torch.
"""

import importlib

from seq2edge.bench.system import System, SystemPlan

MODULES = {
    "torch": "seq2edge_export.peers.torch",
    "ctranslate2": "seq2edge_export.peers.ctranslate2",
    "optimum": "seq2edge_export.peers.optimum",
}


def open_peer(plan: SystemPlan) -> System:
    system: System = importlib.import_module(MODULES[plan.kind]).open_peer(plan)
    return system
