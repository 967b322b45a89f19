"""PyTorch: transformers' own model and ``generate``, or our model with our search."""

import time
from pathlib import Path
from typing import Any

import torch

from seq2edge.bench.system import Answer, SystemPlan, peak_memory
from seq2edge.bench.workload import NO_LIMIT, Sources
from seq2edge.config.generation import GenerationOptions
from seq2edge.search.batch_decode import decode
from seq2edge_export.peers.generate import translate
from seq2edge_export.peers.interface import generate_arguments

OWN = "our own model"  # how the plan of a model that transformers has not is told from others


def open_peer(plan: SystemPlan) -> "GenerateSystem | OwnSystem":
    torch.set_num_threads(plan.threads)
    return OwnSystem(Path(plan.path)) if plan.tool.endswith(OWN) else GenerateSystem(Path(plan.path))


class GenerateSystem:
    """transformers as its users have it."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForSeq2SeqLM
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self.model: Any = AutoModelForSeq2SeqLM.from_pretrained(str(folder)).eval()

    def translate(self, sources: Sources, options: GenerationOptions) -> Answer:
        started = time.perf_counter()
        outputs = translate(self.model, sources, generate_arguments(options))
        return Answer(outputs, time.perf_counter() - started)

    def peak_memory(self) -> int | None:
        return peak_memory()

    def close(self) -> None:
        """Nothing to let go of."""


class OwnSystem:
    """The PyTorch model of this project with the search of the runtime."""

    def __init__(self, checkpoint: Path) -> None:
        from seq2edge_export.loaders import load_checkpoint
        from seq2edge_export.torch_engine import TorchEngine

        original = load_checkpoint(checkpoint).original()
        self.engine = TorchEngine(original.graphs, pad=original.tokens.pad)

    def translate(self, sources: Sources, options: GenerationOptions) -> Answer:
        started = time.perf_counter()
        found = decode(self.engine, sources, options, batch_size=len(sources), batch_tokens=NO_LIMIT)
        return Answer([best.tokens for best, *_ in found], time.perf_counter() - started)

    def peak_memory(self) -> int | None:
        return peak_memory()

    def close(self) -> None:
        """Nothing to let go of."""
