"""Large models: the base model of the paper, and one above the size limit of protobuf."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_checkpoint import TINY, write_checkpoint
from tolerances import network_rounding

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import load_bundle
from seq2edge.engine.engine import OnnxEngine
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.export import export_bundle
from seq2edge_export.source_model import TorchEngine
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.pipeline import quantize_bundle

LARGE = replace(TINY, width=2048, heads=16, feed_forward=8192, encoder_layers=6, decoder_layers=4)
BASE = replace(
    TINY,
    width=512,
    heads=8,
    feed_forward=2048,
    encoder_layers=6,
    decoder_layers=6,
    source_vocabulary=32_000,
    target_vocabulary=32_000,
    joint_vocabulary=True,
    tied_output=True,
)
TOKENIZER_BYTES = 800_000  # of a SentencePiece model with 32,000 pieces; that of the tests is smaller
TWO_GIGABYTES = 2**31
LOGITS = network_rounding(LARGE, size=4)


@pytest.mark.slow
def test_a_model_beyond_two_gigabytes_exports_and_gives_the_logits_of_its_source_model(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "checkpoint", LARGE, scaled=False)
    bundle = export_bundle(folder, tmp_path / "bundle", compare=False)
    assert bundle.manifest.files[tensor_names.WEIGHTS].size > TWO_GIGABYTES
    source_model = load_checkpoint(folder).source_model()
    sources = source_model.tokenizer().encode(["the old man sees a red house.", "nobody sells bread."])
    tokens, rows = np.array([[[2, 5]], [[2, 7]]]), np.array([[0], [1]])
    with torch.inference_mode():
        expected = TorchEngine(source_model.graphs, pad=0).start(sources).step(tokens, rows).logits
    found = (
        OnnxEngine(load_bundle(bundle.folder, check_hashes=False), threads=1).start(sources).step(tokens, rows).logits
    )
    np.testing.assert_allclose(found, expected, atol=LOGITS)


@pytest.mark.slow
def test_a_base_model_in_fewer_bits_is_as_small_as_it_should_be(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "checkpoint", BASE, scaled=False)
    full = export_bundle(folder, tmp_path / "fp32", compare=False)
    for precision, bytes_a_parameter in (("int8", 1.08), ("int4", 0.62)):
        made = quantize_bundle(
            full.folder, tmp_path / precision, QuantizationConfig(precision=precision), compare=False
        )
        assert made.size + TOKENIZER_BYTES <= bytes_a_parameter * made.manifest.parameters
