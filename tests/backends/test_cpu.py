"""The CPU runs the graphs of other devices with the same code, using host memory as device memory."""

import json

import numpy as np
import pytest

from seq2edge import Translator
from seq2edge.bench.workload import SENTENCES
from seq2edge.bundle.bundle import load_bundle
from seq2edge.engine.engine import OnnxEngine

TEXTS = ["Good morning.", "Where is the nearest train station?", "She asked whether the meeting could be moved."]


@pytest.mark.parametrize("precision", ["fp32", "fp16", "half", "int8"])  # exported without a comparison
def test_the_default_model_is_within_the_limits_of_its_precision(bundles, command, lines, precision: str) -> None:
    texts = SENTENCES if precision == "fp32" else TEXTS
    arguments = ("--against", "models/en-pt", "--input", lines(*texts), "--strict-device", "--json")
    done = command("verify", getattr(bundles, precision), *arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["parity"]["device"] == "cpu"


def test_the_fused_and_the_portable_bundle_translate_alike(bundles) -> None:
    with Translator() as default, Translator(bundles.int8) as portable:
        assert [one.text for one in default.translate(TEXTS)] == [one.text for one in portable.translate(TEXTS)]


def test_states_and_cache_are_arrays(bundles) -> None:
    state = OnnxEngine(load_bundle(bundles.tiny), threads=1).start([[5, 6, 7], [8]])
    state.top_k(np.full((2, 1, 1), 2), np.arange(2)[:, None], 3)
    assert {type(value) for value in (state.source | state.past).values()} == {np.ndarray}
