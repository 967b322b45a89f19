"""The checkpoint in the repository and the bundle in the package are the same small model."""

from pathlib import Path

import onnx
import pytest

from memory import loading_memory
from seq2edge import Translator
from seq2edge.bench.workload import SENTENCES
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.export import export_bundle
from seq2edge_export.source_model import translate_with_torch
from seq2edge_export.verify import verify
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.pipeline import quantize_bundle

ROOT = Path(__file__).parents[2]
CHECKPOINT = ROOT / "models" / "en-pt"


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_bundle(CHECKPOINT, tmp_path_factory.mktemp("default") / "fp32", compare=False).folder


def test_it_is_small() -> None:
    manifest = load_bundle(DEFAULT_BUNDLE).manifest
    assert manifest.parameters <= 14_000_000
    assert 8_000 <= manifest.architecture.target_vocabulary <= 12_000
    assert size_of(DEFAULT_BUNDLE) <= 14_000_000


def test_the_bundle_in_the_package_was_made_from_the_checkpoint() -> None:
    verdict = verify(load_bundle(DEFAULT_BUNDLE), load_checkpoint(CHECKPOINT).source_model(), texts=SENTENCES)
    assert verdict.passed, str(verdict)


@pytest.mark.slow
def test_int4_is_small_and_keeps_its_limits(exact: Path, tmp_path: Path) -> None:
    made = quantize_bundle(exact, tmp_path / "small", QuantizationConfig(precision="int4"))
    assert made.size <= 0.62 * made.manifest.parameters


def test_int8_is_small() -> None:
    default = load_bundle(DEFAULT_BUNDLE)  # that it keeps its limits is shown above
    assert default.manifest.precision == "int8"
    assert default.size <= 1.08 * default.manifest.parameters


def test_all_its_products_round_with_constants_and_add_their_bias() -> None:
    for name in (tensor_names.ENCODER, tensor_names.DECODER):
        graph = onnx.load(DEFAULT_BUNDLE / name, load_external_data=False).graph
        constants = {constant.name for constant in graph.initializer}
        products = [node for node in graph.node if node.op_type == "MatMulIntegerToFloat"]
        assert all(node.input[2] in constants for node in products)  # the scale of the rows
        assert sum(len(node.input) == 7 for node in products) > len(products) // 2  # some have no bias


def test_in_float32_every_token_matches_the_source_model(exact: Path) -> None:
    verdict = verify(load_bundle(exact), load_checkpoint(CHECKPOINT).source_model(), texts=SENTENCES)
    assert verdict.passed, str(verdict)
    assert verdict.parity.greedy_equal == verdict.parity.beam_equal == 1.0


def test_translations_are_those_of_pytorch(exact: Path) -> None:
    expected = translate_with_torch(load_checkpoint(CHECKPOINT).source_model(), SENTENCES, num_beams=4)
    assert [result.text for result in Translator(exact).translate(SENTENCES, num_beams=4)] == expected


def test_the_float32_bundle_is_hardly_larger_than_its_parameters(exact: Path) -> None:
    bundle = load_bundle(exact)
    assert bundle.size <= 1.03 * 4 * bundle.manifest.parameters


def test_loading_takes_little_more_than_the_bundle(exact: Path) -> None:
    assert loading_memory(exact) <= 1.6 * load_bundle(exact).size


def test_both_have_license_and_attribution() -> None:
    rights = load_bundle(DEFAULT_BUNDLE).manifest.rights
    assert rights.license == "CC-BY-2.0-FR"
    assert "tatoeba.org" in rights.attribution
    assert "tatoeba.org" in (CHECKPOINT / "README.md").read_text(encoding="utf-8")
