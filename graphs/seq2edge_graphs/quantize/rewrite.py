"""Rewrite the graphs of a bundle in other precisions, and compare two bundles."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx_ir as ir

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.text.tokenizer import bundle_tokenizer
from seq2edge_graphs.bundle_writer import load_with_weights, save_sharing_weights
from seq2edge_graphs.parity.measure import ParityComparison, open_engine
from seq2edge_graphs.parity.record import ParityTask
from seq2edge_graphs.parity.sentences import encode_sentences
from seq2edge_graphs.quantize.apply import Plan, quantize
from seq2edge_graphs.quantize.calibration import NO_CALIBRATION, Calibration

GRAPHS = (tensor_names.ENCODER, tensor_names.DECODER, tensor_names.SCORER)  # in the order of their weights on disk


def load_graphs(bundle: Bundle) -> dict[str, ir.Model]:
    return {name: load_with_weights(bundle.folder / name) for name in GRAPHS if name in bundle.manifest.files}


def write_graphs(bundle: Bundle, plan: Plan, folder: Path, calibration: Calibration = NO_CALIBRATION) -> None:
    """Write the quantized graphs of a bundle and their weights to a folder, which may be that of the bundle."""
    graphs = load_graphs(bundle)
    grams, ranges = calibration.grams, calibration.ranges
    quantize(graphs.values(), plan, dialect=bundle.manifest.dialect, grams=grams, ranges=ranges)
    save_sharing_weights({folder / name: model for name, model in graphs.items()}, folder / tensor_names.WEIGHTS)


@contextmanager
def temporary_bundle(bundle: Bundle, plan: Plan, calibration: Calibration = NO_CALIBRATION) -> Iterator[Bundle]:
    """Write a quantized copy of a bundle that is deleted on exit."""
    with TemporaryDirectory() as folder:
        write_graphs(bundle, plan, Path(folder), calibration)
        yield replace(bundle, folder=Path(folder))


def compare_bundles(bundle: Bundle, source: Bundle, texts: Sequence[str] | None) -> ParityComparison:
    """Compare a bundle with the float32 bundle that it was made from, on some sentences or on a built-in set."""
    manifest, tokenizer = source.manifest, bundle_tokenizer(source)
    sources, max_new_tokens = encode_sentences(texts, tokenizer, max_tokens=manifest.max_positions)
    return ParityComparison(
        bundle=bundle,
        open_source=partial(open_engine, source),
        tokenizer=tokenizer,
        task=ParityTask(sources, manifest.generation, max_new_tokens),
    )
