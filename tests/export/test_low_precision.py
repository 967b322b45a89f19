"""Quantized bundles: rewrite a float32 bundle and run it."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from tiny_checkpoint import SENTENCES, TINY
from tolerances import network_rounding, sum_rounding

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle, Dialect, Precision, load_bundle
from seq2edge.devices.session import open_session, run
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import DataError
from seq2edge.scoring.scorer import forced_logits
from seq2edge.text.tokenizer import bundle_tokenizer
from seq2edge_graphs.bundle_writer import describe_files, load_with_weights, save_sharing_weights, write_manifest
from seq2edge_graphs.passes.subgraph import expose
from seq2edge_graphs.quantize.apply import plan_precision, quantize, weight_names
from seq2edge_graphs.quantize.calibration import collect_grams
from seq2edge_graphs.quantize.gptq import Grams

GRAPHS = (tensor_names.ENCODER, tensor_names.DECODER)
TARGETS = [[5 + 7 * row % 300 for row in range(start, start + 6)] for start in range(12)]


def rewrite(folder: Path, target: Path, precision: Precision, dialect: Dialect, grams: Grams | None = None) -> Bundle:
    shutil.copytree(folder, target)
    (target / tensor_names.SCORER).unlink()  # it still refers to the float32 weights
    graphs = {target / name: load_with_weights(folder / name) for name in GRAPHS}
    quantize(graphs.values(), plan_precision(graphs.values(), precision), dialect=dialect, grams=grams)
    save_sharing_weights(graphs, target / tensor_names.WEIGHTS)
    full = load_bundle(folder).manifest
    write_manifest(target, replace(full, precision=precision, files=describe_files(target), parity=None))
    return load_bundle(target)


def sources(bundle: Bundle, count: int) -> list[list[int]]:
    """Return sentences of different lengths."""
    texts = [SENTENCES[row][: 6 + row % 30] for row in range(0, 25 * count, 25)]
    return bundle_tokenizer(bundle).encode(texts)


def logits(bundle: Bundle, texts: list[list[int]], targets: list[list[int]]) -> np.ndarray:  # (B, T, V)
    start = bundle.manifest.generation.decoder_start_token_id
    engine = OnnxEngine(bundle, threads=1)
    return np.stack([scores for _, scores in forced_logits(engine, texts, targets, start=start)], axis=1)


@pytest.mark.parametrize(
    ("precision", "dialect"),
    [("fp16", "ort"), ("int8", "ort"), ("int8", "portable"), ("int4", "ort")],
)
def test_results_do_not_depend_on_the_batch(made, tmp_path: Path, precision, dialect) -> None:
    """Float rounding depends on the batch and can change a quantized value now and then, so almost all must agree."""
    full = load_bundle(made.bundles[dialect])
    small = rewrite(full.folder, tmp_path / "small", precision, dialect)
    texts = sources(full, len(TARGETS))
    together = logits(small, texts, TARGETS)
    alone = np.concatenate([logits(small, [text], [target]) for text, target in zip(texts, TARGETS, strict=True)])
    apart = np.abs(together - alone).max(axis=2)
    lost = np.abs(together - logits(full, texts, TARGETS)).max(axis=2)
    assert np.median(apart) < network_rounding(TINY, size=10)
    assert apart.max() < lost.max()
    assert (together.argmax(axis=2) == alone.argmax(axis=2)).mean() > 0.98


@pytest.mark.parametrize(("precision", "error"), [("fp16", 0.01), ("int8", 0.15), ("int4", 1.0)])
def test_the_loss_of_each_precision_is_small(made, tmp_path: Path, precision: Precision, error: float) -> None:
    """Relative to the standard deviation of the logits; random weights are harder to round than trained ones."""
    full = load_bundle(made.bundles["ort"])
    small = rewrite(full.folder, tmp_path / "small", precision, "ort")
    texts = sources(full, len(TARGETS))
    exact, found = logits(full, texts, TARGETS), logits(small, texts, TARGETS)
    assert 0 < np.abs(found - exact).mean() < error * exact.std()


def test_every_weight_has_the_name_of_its_parameter(made) -> None:
    found = weight_names([ir.load(made.bundles["ort"] / name) for name in GRAPHS])
    layers = [f"encoder.{layer}.feed_forward.inner.weight" for layer in range(2)]
    assert {"source_embedding.tokens.weight", "source_embedding.positions", *layers} <= set(found)
    assert not [name for name in found if name.startswith("val_")]


def test_gram_matrices_are_those_of_the_inputs_of_the_products(made, tmp_path: Path) -> None:
    full = load_bundle(made.bundles["ort"])
    texts = sources(full, 8)
    grams = collect_grams(full, texts)
    matrices = {
        name for name in weight_names([ir.load(full.folder / name) for name in GRAPHS]) if "positions" not in name
    }
    assert grams.keys() == matrices
    inner = grams["decoder.1.feed_forward.output.weight"]
    assert inner.shape == (48, 48)
    assert (inner >= 0).all()  # behind a ReLU
    encoder = open_session(
        expose(full.folder / tensor_names.ENCODER, ["encoder_norm"], tmp_path, weights=tensor_names.WEIGHTS), threads=1
    )
    masks = [np.ones((1, len(text)), np.bool_) for text in texts]
    feeds = [
        {tensor_names.SOURCE: np.array([text]), tensor_names.SOURCE_MASK: mask}
        for text, mask in zip(texts, masks, strict=True)
    ]
    rows = np.concatenate([run(encoder, feed)[0][0] for feed in feeds])
    exact = rows.T @ rows / len(rows)
    sums = sum_rounding(len(rows), np.square(rows).sum(axis=0).max() / len(rows))
    limit = sums + 2 * network_rounding(TINY, np.abs(exact).max())  # of both factors
    np.testing.assert_allclose(grams["decoder.1.cross.value.weight"], exact, rtol=0, atol=limit)


def test_calibrating_with_nothing_is_refused(made) -> None:
    with pytest.raises(DataError, match="no sentence to calibrate with"):
        collect_grams(load_bundle(made.bundles["ort"]), [])
