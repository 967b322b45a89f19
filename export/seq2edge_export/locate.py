"""Find the first layer whose output differs between a bundle and its source model."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from seq2edge.engine.encoder import encode, pad_sources
from seq2edge.engine.engine import OnnxEngine
from seq2edge_export.source_model import TorchEngine
from seq2edge_export.tracing.graph_modules import EncoderDecoder, GraphModules
from seq2edge_export.tracing.value_names import PREFIX
from seq2edge_graphs.passes.subgraph import expose, inner_values

OUTPUT = "output"  # name of the output projection
Values = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Divergence:
    """The first layer whose output differs, in one step of one sentence."""

    sentence: int
    step: int
    layer: str
    difference: float  # relative to the largest value of the layer's output

    def __str__(self) -> str:
        return (
            f"they diverge in step {self.step + 1} of sentence {self.sentence + 1}: "
            f"{self.layer} is the first layer that differs, by {self.difference:.2g} of its largest value"
        )


def first_difference(
    bundle: Bundle, graphs: GraphModules, source: list[int], prefix: list[int], *, limit: float
) -> tuple[str, float] | None:
    """Run both on one sentence with a forced prefix; return the first layer that differs by more than ``limit``."""
    pad = bundle.manifest.tokens.pad
    graphs = replace(graphs, reference=graphs.traced)  # the model with the same layers as the graphs
    with _record_outputs(graphs.traced) as theirs:
        TorchEngine(graphs, pad=pad).start([source]).step(np.array([[prefix]]), np.array([[0]]))
    ours = _graph_values(bundle, source, prefix, theirs.keys())
    for name, value in ours.items():
        if theirs[name].size != value.size:  # a shared embedding is one module with two outputs
            continue
        difference = _relative_difference(value, theirs[name])
        if not difference <= limit:
            return name, difference
    return None


def _graph_values(bundle: Bundle, source: list[int], prefix: list[int], modules: Collection[str]) -> Values:
    """Return the output of every module in both graphs, in the order of computation."""
    engine = OnnxEngine(bundle, threads=1)
    ids, mask = pad_sources([source], engine.padding.token)  # without padding, as in the source model
    encoded = encode(engine.encoder, ids, mask)
    encoder_feed = {tensor_names.SOURCE: ids, tensor_names.SOURCE_MASK: mask}
    decoder_feed = first_decoder_inputs(engine.decoder, np.array([prefix]), encoded)
    values = _run(bundle, tensor_names.ENCODER, encoder_feed, modules) | _run(
        bundle, tensor_names.DECODER, decoder_feed, modules
    )
    if OUTPUT in modules and OUTPUT not in values:  # its output is the logits, which have their own name
        [values[OUTPUT]] = engine.decoder.run([tensor_names.LOGITS], decoder_feed)
    return values


def _run(bundle: Bundle, graph: str, feed: dict[str, Any], modules: Collection[str]) -> Values:
    values = inner_values(bundle.folder / graph, modules)
    if not values:  # a user's own module may have no submodules
        return {}
    with TemporaryDirectory(prefix="seq2edge-") as folder:
        copy = expose(bundle.folder / graph, values, Path(folder), weights=tensor_names.WEIGHTS)
        session = open_session(copy, threads=1)
        inputs = {entry.name for entry in session.get_inputs()}
        return dict(zip(values, session.run(values, {k: v for k, v in feed.items() if k in inputs}), strict=True))


@contextmanager
def _record_outputs(model: EncoderDecoder) -> Iterator[Values]:
    """Collect the output of every module that runs in this context."""
    values: Values = {}

    def record(name: str) -> Any:
        def hook(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            values[name] = (output if isinstance(output, torch.Tensor) else output[0]).detach().cpu().numpy()

        return hook

    both = (*model.encoder.named_modules(), *model.decoder.named_modules())
    modules = {name.removeprefix(PREFIX): module for name, module in both if name}
    hooks = [module.register_forward_hook(record(name)) for name, module in modules.items()]
    try:
        yield values
    finally:
        for hook in hooks:
            hook.remove()


def _relative_difference(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    """Divide the largest difference by the largest value; the shapes differ only in how axes are merged."""
    difference = np.abs(ours.reshape(-1) - theirs.reshape(-1)).max()
    return float(difference / max(np.abs(theirs).max(), 1e-6))
