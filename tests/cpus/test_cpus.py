"""The light wheel on other CPUs: the tokens of PyTorch in float32, exact integer products, and batch invariance."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tolerances import log_probability_rounding, network_rounding, score_rounding

from seq2edge.config.architecture import Architecture
from seq2edge.search.batch_decode import decode
from seq2edge.search.hypothesis import Hypothesis
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.source_model import SourceModel, TorchEngine

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def source_model() -> SourceModel:
    return load_checkpoint(ROOT / "models" / "en-pt").source_model()


@pytest.fixture(scope="session")
def reference(source_model: SourceModel, native: dict[str, Any]) -> dict[str, list[Hypothesis]]:
    """What PyTorch gives on this machine, by the number of beams."""
    engine = TorchEngine(source_model.graphs, pad=source_model.tokens.pad)
    sources = source_model.tokenizer().encode(native["texts"])
    outputs = {beams: decode(engine, sources, replace(source_model.generation, num_beams=beams)) for beams in (1, 4)}
    return {str(beams): [hypotheses[0] for hypotheses in found] for beams, found in outputs.items()}


@pytest.mark.parametrize("beams", ["1", "4"])
def test_float32_gives_the_tokens_and_scores_of_the_source_model(
    emulated: dict[str, Any], reference: dict[str, list[Hypothesis]], source_model: SourceModel, beams: str
) -> None:
    found = emulated["translations"]["fp32"][beams]["together"]
    assert [one["tokens"] for one in found] == [one.tokens for one in reference[beams]]
    assert isinstance(source_model.architecture, Architecture)
    each = log_probability_rounding(network_rounding(source_model.architecture, size=20))
    for ours, theirs in zip(found, reference[beams], strict=True):
        assert ours["token_scores"] == pytest.approx(theirs.token_scores, abs=each)
        penalty = source_model.generation.length_penalty if beams != "1" else 0  # greedy scores are sums
        assert ours["score"] == pytest.approx(theirs.score, abs=score_rounding(len(theirs.tokens), each, penalty))


@pytest.mark.parametrize("bundle", ["fp32", "int8"])
def test_tokens_and_scores_are_the_same_alone_and_in_a_batch(emulated: dict[str, Any], bundle: str) -> None:
    for found in emulated["translations"][bundle].values():
        assert found["alone"] == found["together"]


@pytest.mark.parametrize("weights", ["normal", "one-sign"])
def test_products_of_the_integers_that_bundles_store_are_exact(emulated: dict[str, Any], weights: str) -> None:
    assert emulated["products"][weights]


def test_the_cpu_is_the_one_that_was_asked_for(cpu: Any, emulated: dict[str, Any]) -> None:
    assert emulated["machine"] == ("x86_64" if cpu.part is None else "aarch64")
    assert emulated["products"]["full-range"] != cpu.saturates  # with the largest weights, which bundles do not store


def test_the_installed_command_translates(cpu: Any) -> None:
    done = cpu.run("-m", "seq2edge", "translate", "--threads", 1, "Good morning.")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Bom dia")
