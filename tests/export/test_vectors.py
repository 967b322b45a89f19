"""The test vectors for readers in other languages are what Python computes."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tolerances import network_rounding
from widened_bundle import write_widened

from seq2edge import Translator

VECTORS = Path(__file__).parents[1] / "vectors"
KINDS = sorted(path.name for path in VECTORS.iterdir() if path.is_dir() and not path.name.startswith("_"))


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_vectors", VECTORS / "write.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_a_bundle_for_each_kind_of_decoder() -> None:
    assert KINDS == ["append", "inplace", "int8", "recurrent"]


@pytest.mark.parametrize("kind", KINDS)
def test_python_computes_what_the_vectors_say(kind: str, writer: ModuleType, tmp_path: Path) -> None:
    bundle = VECTORS / kind
    if kind == "int8":
        bundle = write_widened(bundle, VECTORS / "inplace", tmp_path / "widened")
    expected = json.loads((VECTORS / kind / "expected.json").read_text(encoding="utf-8"))["sentences"]
    architecture = Translator(bundle, threads=1).manifest.architecture
    assert architecture is not None
    for wanted, found in zip(expected, writer.expectations(bundle), strict=True):
        logits, computed = np.array(wanted.pop("first_logits")), np.array(found.pop("first_logits"))
        rounding = network_rounding(architecture, float(np.abs(logits).max())) + 10.0**-writer.DIGITS
        np.testing.assert_allclose(computed, logits, rtol=0, atol=rounding)
        assert found == wanted
