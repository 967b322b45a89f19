"""Find the first layer where a bundle parts from the original."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.devices.session import open_session
from seq2edge.engine.decoder_inputs import first_decoder_inputs
from seq2edge.engine.encoder import encode
from seq2edge.engine.engine import OnnxEngine
from seq2edge_export.torch_engine import TorchEngine
from seq2edge_export.tracing.graph_modules import GraphModules
from seq2edge_export.tracing.value_names import PREFIX
from seq2edge_graphs.passes.expose import expose, inner_values

OUTPUT = "output"  # the last layer
Values = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Divergence:
    """Where two models part: the sentence, the step, and the first layer whose output differs."""

    sentence: int
    step: int
    layer: str
    difference: float  # relative to the largest number in the layer's output

    def __str__(self) -> str:
        return (
            f"they part at step {self.step + 1} of sentence {self.sentence + 1}: "
            f"{self.layer} is the first layer that differs, by {self.difference:.2g} of its largest value"
        )


def first_difference(
    bundle: Bundle, graphs: GraphModules, source: list[int], prefix: list[int], *, limit: float
) -> tuple[str, float] | None:
    """Run one sentence through both with a forced prefix; give the first layer that differs by more than a limit."""
    pad = bundle.manifest.tokens.pad
    graphs = graphs.traced or graphs
    with _watched(graphs) as theirs:
        TorchEngine(graphs, pad=pad).start([source])(np.array([[prefix]]), np.array([[0]]))
    ours = _inner(bundle, source, prefix, theirs.keys())
    for name, value in ours.items():
        if theirs[name].size != value.size:  # a shared embedding is one module with two outputs
            continue
        difference = _relative(value, theirs[name])
        if not difference <= limit:
            return name, difference
    return None


def _inner(bundle: Bundle, source: list[int], prefix: list[int], modules: Collection[str]) -> Values:
    """What both graphs give at the end of every module, in the order of computation."""
    engine = OnnxEngine(bundle, threads=1)
    read = encode(engine.encoder, [source], pad=engine.pad)
    encoder_feed = {tensor_names.SOURCE: np.array([source]), tensor_names.SOURCE_MASK: read[tensor_names.SOURCE_MASK]}
    decoder_feed = first_decoder_inputs(engine.decoder, np.array([prefix]), read)
    values = _run(bundle, tensor_names.ENCODER, encoder_feed, modules) | _run(
        bundle, tensor_names.DECODER, decoder_feed, modules
    )
    if OUTPUT in modules and OUTPUT not in values:  # it gives the logits themselves, which keep their own name
        [values[OUTPUT]] = engine.decoder.run([tensor_names.LOGITS], decoder_feed)
    return values


def _run(bundle: Bundle, graph: str, feed: dict[str, Any], modules: Collection[str]) -> Values:
    wanted = inner_values(bundle.folder / graph, modules)
    if not wanted:  # a module may do everything in its own methods
        return {}
    with TemporaryDirectory(prefix="seq2edge-") as folder:
        copy = expose(bundle.folder / graph, wanted, Path(folder), weights=tensor_names.WEIGHTS)
        session = open_session(copy, threads=1)
        needed = {entry.name for entry in session.get_inputs()}
        return dict(zip(wanted, session.run(wanted, {k: v for k, v in feed.items() if k in needed}), strict=True))


@contextmanager
def _watched(graphs: GraphModules) -> Iterator[Values]:
    """Collect what every module of the original gives."""
    values: Values = {}

    def keep(name: str) -> Any:
        def hook(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            values[name] = (output if isinstance(output, torch.Tensor) else output[0]).detach().cpu().numpy()

        return hook

    both = (*graphs.encoder.named_modules(), *graphs.decoder.named_modules())
    modules = {name.removeprefix(PREFIX): module for name, module in both if name}
    hooks = [module.register_forward_hook(keep(name)) for name, module in modules.items()]
    try:
        yield values
    finally:
        for hook in hooks:
            hook.remove()


def _relative(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    """Largest difference over the largest value; the shapes differ only in how rows and positions are folded."""
    difference = np.abs(ours.reshape(-1) - theirs.reshape(-1)).max()
    return float(difference / max(np.abs(theirs).max(), 1e-6))
