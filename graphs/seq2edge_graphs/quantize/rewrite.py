"""Bundles in other precisions, to keep or to try out.

Compare a bundle in fewer bits with the one in float32 that it was made from.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx_ir as ir

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.text.tokenizer import Tokenizer, load_tokenizer
from seq2edge_graphs.bundle_writer import load_with_weights, save_sharing_weights
from seq2edge_graphs.parity.measure import ParityComparison, ParityTask, open_engine
from seq2edge_graphs.parity.sentences import encode_sentences
from seq2edge_graphs.quantize.apply import Grams, Plan, quantize


def graph_names(bundle: Bundle) -> list[str]:
    """The graphs of a bundle, in the order in which their weights are stored."""
    return [
        name
        for name in (tensor_names.ENCODER, tensor_names.DECODER, tensor_names.SCORER)
        if name in bundle.manifest.files
    ]


def load_graphs(bundle: Bundle) -> dict[str, ir.Model]:
    return {name: load_with_weights(bundle.folder / name) for name in graph_names(bundle)}


def write_graphs(bundle: Bundle, plan: Plan, folder: Path, grams: Grams | None = None) -> None:
    """Write the graphs of a bundle in other precisions, with their weights; the folder may be the bundle's own."""
    graphs = load_graphs(bundle)
    quantize(graphs.values(), plan, dialect=bundle.manifest.dialect, grams=grams)
    save_sharing_weights({folder / name: model for name, model in graphs.items()}, folder / tensor_names.WEIGHTS)


@contextmanager
def temporary_bundle(bundle: Bundle, plan: Plan, grams: Grams | None = None) -> Iterator[Bundle]:
    """A bundle in other precisions that is gone afterwards."""
    with TemporaryDirectory() as name:
        write_graphs(bundle, plan, Path(name), grams)
        yield replace(bundle, folder=Path(name))


def compare_bundles(bundle: Bundle, original: Bundle, texts: Sequence[str] | None) -> ParityComparison:
    """Both side by side on some sentences, or on a built-in set."""
    manifest, tokenizer = original.manifest, tokenizer_of(original)
    sources, most_tokens = encode_sentences(texts, tokenizer, longest=manifest.max_positions)
    return ParityComparison(
        ours=bundle,
        theirs=partial(open_engine, original),
        tokenizer=tokenizer,
        task=ParityTask(sources, manifest.generation, most_tokens),
    )


def tokenizer_of(bundle: Bundle) -> Tokenizer:
    manifest = bundle.manifest
    files = {name: bundle.folder / name for name in manifest.tokenizer.files}
    return load_tokenizer(manifest.tokenizer, manifest.tokens, files)
