"""PyTorch as a peer: transformers where it has the architecture, otherwise our own PyTorch model."""

import time
from pathlib import Path
from typing import Any

import torch

from seq2edge.bench.system import PeerRequest, SystemPlan, TimedOutputs, peak_memory
from seq2edge.bench.workload import NO_LIMIT, Sources
from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import imports_of_extras
from seq2edge.search.batch_decode import decode
from seq2edge_export.peers.generate import translate
from seq2edge_export.peers.interface import folder_size, generate_arguments, load_source_model, transformer_of

OWN = "our own model"  # ends the tool of a plan that does not use transformers


def prepare(request: PeerRequest) -> list[SystemPlan]:
    """Write a folder for transformers, or use the checkpoint itself if transformers lacks the architecture."""
    from importlib.metadata import version

    from seq2edge_export.peers.hugging_face import unsupported, write_folder

    source_model = load_source_model(request)
    path, tool = request.checkpoint, OWN
    if not unsupported(transformer_of(source_model).architecture):
        write_folder(source_model, request.folder)
        path, tool = request.folder, f"transformers {_transformers_version()}"
    return [
        SystemPlan(
            name="torch",
            kind="torch",
            module=__name__,
            path=str(path),
            precision="fp32",
            size=folder_size(path),
            tool=f"torch {version('torch')}, {tool}",
        )
    ]


def open_peer(plan: SystemPlan) -> "GenerateSystem | OwnSystem":
    torch.set_num_threads(plan.threads)
    return OwnSystem(Path(plan.path)) if plan.tool.endswith(OWN) else GenerateSystem(Path(plan.path))


class GenerateSystem:
    """A model of transformers with its own search."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForSeq2SeqLM
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self.model: Any = AutoModelForSeq2SeqLM.from_pretrained(str(folder)).eval()

    def translate(self, sources: Sources, options: GenerationOptions) -> TimedOutputs:
        started = time.perf_counter()
        outputs = translate(self.model, sources, generate_arguments(options))
        return TimedOutputs(outputs, time.perf_counter() - started)

    def peak_memory(self) -> int | None:
        return peak_memory()

    def close(self) -> None: ...


class OwnSystem:
    """The PyTorch model of this project with the search of the runtime."""

    def __init__(self, checkpoint: Path) -> None:
        from seq2edge_export.loaders import load_checkpoint
        from seq2edge_export.source_model import TorchEngine

        source_model = load_checkpoint(checkpoint).source_model()
        self.engine = TorchEngine(source_model.graphs, pad=source_model.tokens.pad)

    def translate(self, sources: Sources, options: GenerationOptions) -> TimedOutputs:
        started = time.perf_counter()
        ranked = decode(self.engine, sources, options, batch_size=len(sources), batch_tokens=NO_LIMIT)
        return TimedOutputs([best.tokens for best, *_ in ranked], time.perf_counter() - started)

    def peak_memory(self) -> int | None:
        return peak_memory()

    def close(self) -> None: ...


def _transformers_version() -> str:
    with imports_of_extras():
        import transformers
    return str(transformers.__version__)
