"""Bundles in other precisions, to keep or to try out; needs onnx-ir and onnxruntime."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx_ir as ir

from seq2edge import names
from seq2edge.bundle import Bundle
from seq2edge_graphs.quantize.plan import Grams, Plan, quantize
from seq2edge_graphs.weights import load_with_weights, save_sharing_weights


def graph_names(bundle: Bundle) -> list[str]:
    """The graphs of a bundle, in the order in which their weights are stored."""
    return [name for name in (names.ENCODER, names.DECODER, names.SCORER) if name in bundle.manifest.files]


def load_graphs(bundle: Bundle) -> dict[str, ir.Model]:
    return {name: load_with_weights(bundle.folder / name) for name in graph_names(bundle)}


def write_graphs(bundle: Bundle, plan: Plan, folder: Path, grams: Grams | None = None) -> None:
    """Write the graphs of a bundle in other precisions, with their weights; the folder may be the bundle's own."""
    graphs = load_graphs(bundle)
    quantize(graphs.values(), plan, dialect=bundle.manifest.dialect, grams=grams)
    save_sharing_weights({folder / name: model for name, model in graphs.items()}, folder / names.WEIGHTS)


@contextmanager
def tried(bundle: Bundle, plan: Plan, grams: Grams | None = None) -> Iterator[Bundle]:
    """A bundle in other precisions that is gone afterwards."""
    with TemporaryDirectory() as name:
        write_graphs(bundle, plan, Path(name), grams)
        yield replace(bundle, folder=Path(name))
