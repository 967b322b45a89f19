"""``seq2edge quantize``: from a float32 bundle to one in fewer bits, without PyTorch."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_checkpoint import SENTENCES

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import load_bundle
from seq2edge.config.parity import LIMITS
from seq2edge.errors import ParityError, UsageError
from seq2edge_export.export import export_bundle
from seq2edge_graphs.quantize.config import QuantizationConfig, Wanted
from seq2edge_graphs.quantize.pipeline import quantize_bundle

TEXTS = [SENTENCES[place] for place in range(0, 200, 10)]


@pytest.fixture(scope="module")
def full(made) -> Path:
    return made.bundles["ort"]


@pytest.fixture(scope="module")
def references(full: Path) -> list[str]:
    """What float32 says itself: any other output loses BLEU."""
    return [result.text for result in Translator(full, threads=1).translate(TEXTS, num_beams=4)]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "seq2edge", "quantize", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def test_it_makes_the_weights_that_export_makes(made, full: Path, tmp_path: Path) -> None:
    wish = QuantizationConfig(precision="int8")
    quantized = quantize_bundle(full, tmp_path / "quantized", wish, compare=False)
    exported = export_bundle(made.checkpoint, tmp_path / "exported", wish=wish, compare=False)
    assert quantized.manifest.files[tensor_names.WEIGHTS] == exported.manifest.files[tensor_names.WEIGHTS]
    assert quantized.manifest.quantization == exported.manifest.quantization


@pytest.mark.parametrize("precision", ["fp16", "int8", "int8-blocks", "int4"])
def test_every_precision_translates(full: Path, tmp_path: Path, precision: Wanted) -> None:
    made = quantize_bundle(full, tmp_path / "small", QuantizationConfig(precision=precision), compare=False)
    assert made.manifest.precision == precision
    assert made.size < load_bundle(full).size
    assert Translator(made.folder, threads=1).translate(TEXTS[:2])


def test_weights_that_match_a_pattern_are_kept_higher(full: Path, tmp_path: Path) -> None:
    wish = QuantizationConfig(precision="int8", keep=["decoder.*.weight", "*embedding*"])
    kept = quantize_bundle(full, tmp_path / "kept", wish, compare=False).manifest.quantization
    assert kept is not None
    assert set(kept.others.values()) == {"fp16"}
    assert all(name.startswith("decoder.") or "embedding" in name for name in kept.others)
    assert kept.weights["fp16"] == len(kept.others) > 4
    assert kept.weights["int8"] > 4


def test_the_manifest_says_what_it_cost(full: Path, tmp_path: Path, references: list[str]) -> None:
    clear = 8  # the text behind these has two beams of almost one score, between which rounding to 16 bits decides
    wish = QuantizationConfig(precision="fp16", texts=TEXTS[:clear], references=references[:clear])
    parity = quantize_bundle(full, tmp_path / "half", wish).manifest.parity
    assert parity is not None
    assert parity.sentences == clear
    assert parity.quality is not None
    assert parity.quality.bleu_original == 100


class TestAuto:
    def test_the_fewest_bits_win_if_anything_goes(self, full: Path, tmp_path: Path, references: list[str]) -> None:
        wish = QuantizationConfig(precision="auto", texts=TEXTS, references=references, max_bleu_loss=100)
        made = quantize_bundle(full, tmp_path / "all", wish, compare=False)
        assert made.manifest.precision == "int4"

    def test_what_hurts_is_kept_higher_until_the_loss_is_within_the_limit(
        self, full: Path, tmp_path: Path, references: list[str]
    ) -> None:
        limit, choices = 2.0, []
        wish = QuantizationConfig(precision="auto", texts=TEXTS, references=references, max_bleu_loss=limit)
        made = quantize_bundle(full, tmp_path / "some", wish, compare=False, explain=choices.append)
        [choice] = choices
        assert choice.bleu_original - choice.bleu <= limit
        assert made.manifest.quantization is not None
        assert sum(made.manifest.quantization.weights.values()) == len(choice.plan)
        costs = [group.damage / group.numbers for group in choice.groups]
        assert costs == sorted(costs, reverse=True)
        assert all(group.damage > 0 for group in choice.groups if group.name != "source_embedding.positions")

    def test_it_needs_references_and_a_limit(self) -> None:
        for given in ({}, {"max_bleu_loss": 1.0}, {"texts": TEXTS, "references": TEXTS}):
            with pytest.raises(UsageError, match="--precision auto measures BLEU"):
                QuantizationConfig(precision="auto", **given)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--precision", "int2"], "'int2' is not one of"),
        (["--keep-precision", "nothing.*"], "no weight matches 'nothing.*'"),
        (["--precision", "int4", "--calibrate", "empty.txt"], "empty.txt holds no sentence"),
        (["--calibrate", "one.txt"], "--calibrate is for rounding to 4 bits"),
        (["--precision", "auto"], "--precision auto measures BLEU"),
        (["--max-bleu-loss", "1"], "--max-bleu-loss goes with --precision auto"),
        (["--input", "nowhere.txt"], "nowhere.txt cannot be read"),
    ],
)
def test_what_cannot_be_gets_one_sentence_and_nothing_is_written(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "one.txt").write_text("nobody sells bread.\n")
    done = command(full, tmp_path / "out", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "one.txt"]


def test_a_quantized_bundle_is_not_quantized_again(full: Path, tmp_path: Path) -> None:
    quantize_bundle(full, tmp_path / "once", QuantizationConfig(precision="int8"), compare=False)
    done = command(tmp_path / "once", tmp_path / "twice")
    assert done.returncode == 2
    assert "is in int8 already" in done.stderr
    assert not (tmp_path / "twice").exists()


def test_a_bundle_that_loses_too_much_is_not_written(
    full: Path, tmp_path: Path, references: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LIMITS, "int4", replace(LIMITS["int4"], mean_kl=0.0))
    with pytest.raises(ParityError, match="the mean divergence is"):
        quantize_bundle(
            full, tmp_path / "out", QuantizationConfig(precision="int4", texts=TEXTS, references=references)
        )
    assert not list(tmp_path.iterdir())
