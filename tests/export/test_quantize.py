"""``seq2edge quantize``: quantize a float32 bundle without PyTorch."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from missing_packages import command_without, packages_outside
from tiny_checkpoint import SENTENCES

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import load_bundle
from seq2edge.config.parity import LIMITS
from seq2edge.errors import ParityError, UsageError
from seq2edge_export.export import export_bundle
from seq2edge_graphs.quantize.calibration import RANDOM_SENTENCES
from seq2edge_graphs.quantize.config import QuantizationConfig, TargetPrecision
from seq2edge_graphs.quantize.pipeline import quantize_bundle

TEXTS = [SENTENCES[row] for row in range(0, 200, 10)]


@pytest.fixture(scope="module")
def full(made) -> Path:
    return made.bundles["ort"]


@pytest.fixture(scope="module")
def references(full: Path) -> list[str]:
    """Return the output of the float32 bundle: any other output loses BLEU."""
    return [result.text for result in Translator(full, threads=1).translate(TEXTS, num_beams=4)]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "seq2edge", "quantize", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("texts", [None, TEXTS])
def test_it_gives_the_same_weights_as_export(made, full: Path, tmp_path: Path, texts: list[str] | None) -> None:
    quantization = QuantizationConfig(precision="int8", texts=texts)
    quantized = quantize_bundle(full, tmp_path / "quantized", quantization, compare=False)
    exported = export_bundle(made.checkpoint, tmp_path / "exported", precision=quantization, compare=False)
    assert quantized.manifest.files[tensor_names.WEIGHTS] == exported.manifest.files[tensor_names.WEIGHTS]
    assert quantized.manifest.quantization == exported.manifest.quantization


def test_int8_calibrates_with_the_given_text_too(full: Path, tmp_path: Path) -> None:
    counts = []
    for name, config in {
        "built-in": QuantizationConfig(precision="int8"),
        "input": QuantizationConfig(precision="int8", texts=TEXTS),
        "calibrate": QuantizationConfig(precision="int8", texts=TEXTS, calibration=TEXTS[:2]),
    }.items():
        quantization = quantize_bundle(full, tmp_path / name, config, compare=False).manifest.quantization
        assert quantization is not None
        counts.append(quantization.calibration)
    assert counts == [counts[0], counts[0] + len(TEXTS), counts[0] + 2]


def test_the_extra_quantize_is_enough(full: Path, tmp_path: Path) -> None:
    others = packages_outside("cpu", "bleu", "quantize")
    assert {"torch", "onnxscript", "tokenizers"} <= others
    (tmp_path / "texts").write_text("\n".join(TEXTS[:2]), encoding="utf-8")
    (tmp_path / "pairs").write_text("".join(f"{text}\t{text[::-1]}\n" for text in TEXTS), encoding="utf-8")
    measured = ["--input", tmp_path / "texts", "--reference", tmp_path / "texts"]
    for arguments in (
        ["quantize", full, tmp_path / "half", *measured, "--precision", "fp16"],
        ["quantize", full, tmp_path / "small", "--precision", "int8", "--no-verify"],
        ["shortlist", full, tmp_path / "short", "--learn", tmp_path / "pairs"],
    ):
        done = command_without(others, *arguments)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("precision", ["fp16", "int8", "int4"])
def test_every_precision_translates(full: Path, tmp_path: Path, precision: TargetPrecision) -> None:
    made = quantize_bundle(full, tmp_path / "small", QuantizationConfig(precision=precision), compare=False)
    assert made.manifest.precision == precision
    assert made.size < load_bundle(full).size
    assert Translator(made.folder, threads=1).translate(TEXTS[:2])


def test_weights_that_match_a_pattern_are_kept_higher(full: Path, tmp_path: Path) -> None:
    quantization = QuantizationConfig(precision="int8", keep=["decoder.*.weight", "*embedding*"])
    kept = quantize_bundle(full, tmp_path / "kept", quantization, compare=False).manifest.quantization
    assert kept is not None
    assert set(kept.others.values()) == {"fp16"}
    assert all(name.startswith("decoder.") or "embedding" in name for name in kept.others)
    assert kept.weights["fp16"] == len(kept.others) > 4
    assert kept.weights["int8"] > 4


def test_the_manifest_has_the_loss_of_quality(full: Path, tmp_path: Path, references: list[str]) -> None:
    clear = 8  # the text behind these has two beams of almost one score, between which rounding to 16 bits decides
    quantization = QuantizationConfig(precision="fp16", texts=TEXTS[:clear], references=references[:clear])
    parity = quantize_bundle(full, tmp_path / "half", quantization).manifest.parity
    assert parity is not None
    assert parity.sentences == clear
    assert parity.quality is not None
    assert parity.quality.bleu_original == 100


class TestAuto:
    def test_a_high_limit_gives_the_fewest_bits(self, full: Path, tmp_path: Path, references: list[str]) -> None:
        quantization = QuantizationConfig(precision="auto", texts=TEXTS, references=references, max_bleu_loss=100)
        made = quantize_bundle(full, tmp_path / "all", quantization, compare=False)
        assert made.manifest.precision == "int4"

    def test_sensitive_weights_keep_more_bits_until_the_loss_is_within_the_limit(
        self, full: Path, tmp_path: Path, references: list[str]
    ) -> None:
        limit, choices = 2.0, []
        quantization = QuantizationConfig(precision="auto", texts=TEXTS, references=references, max_bleu_loss=limit)
        made = quantize_bundle(full, tmp_path / "some", quantization, compare=False, explain=choices.append)
        [choice] = choices
        assert choice.bleu_fp32 - choice.bleu <= limit
        assert made.manifest.quantization is not None
        assert sum(made.manifest.quantization.weights.values()) == len(choice.plan)
        costs = [group.divergence / group.elements for group in choice.groups]
        assert costs == sorted(costs, reverse=True)
        assert all(group.divergence > 0 for group in choice.groups if group.name != "source_embedding.positions")

    def test_it_needs_references_and_a_limit(self) -> None:
        for given in ({}, {"max_bleu_loss": 1.0}, {"texts": TEXTS, "references": TEXTS}):
            with pytest.raises(UsageError, match="--precision auto measures BLEU"):
                QuantizationConfig(precision="auto", **given)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--precision", "int2"], "'int2' is not one of"),
        (["--keep-precision", "nothing.*"], "no weight matches 'nothing.*'"),
        (["--precision", "int4", "--calibrate", "empty.txt"], "empty.txt contains no sentence"),
        (["--precision", "fp16", "--calibrate", "one.txt"], "--calibrate is for rounding to 8 and 4 bits"),
        (["--precision", "auto"], "--precision auto measures BLEU"),
        (["--max-bleu-loss", "1"], "--max-bleu-loss is only used with --precision auto"),
        (["--input", "nowhere.txt"], "nowhere.txt cannot be read"),
    ],
)
def test_an_unusable_option_is_one_sentence_and_nothing_is_written(
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
    assert "is already in int8" in done.stderr
    assert not (tmp_path / "twice").exists()


def test_a_bundle_that_loses_too_much_is_not_written(
    full: Path, tmp_path: Path, references: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LIMITS, "int4", replace(LIMITS["int4"], mean_kl=0.0))
    with pytest.raises(ParityError, match=r"the mean divergence is .* nothing was written: --calibrate .* helps"):
        quantize_bundle(
            full, tmp_path / "out", QuantizationConfig(precision="int4", texts=TEXTS, references=references)
        )
    assert not list(tmp_path.iterdir())


def test_int4_calibrates_itself_and_gives_the_same_bytes_each_time(full: Path, tmp_path: Path) -> None:
    first, second = (
        quantize_bundle(full, tmp_path / name, QuantizationConfig(precision="int4"), compare=False) for name in "ab"
    )
    assert first.manifest == second.manifest  # with the hashes of all files
    assert first.manifest.quantization is not None
    assert first.manifest.quantization.calibration == RANDOM_SENTENCES


def test_int4_keeps_the_embeddings_in_8_bits_if_the_limits_need_it(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = QuantizationConfig(precision="int4", texts=TEXTS)
    better = quantize_bundle(full, tmp_path / "better", config).manifest
    monkeypatch.setitem(LIMITS, "int4", replace(LIMITS["int4"], mean_kl=1.0, clear_agreement=0.0))
    small = quantize_bundle(full, tmp_path / "small", config).manifest
    assert better.quantization is not None
    assert better.quantization.others == {"source_embedding.tokens.weight": "int8"}
    assert small.quantization is not None
    assert not small.quantization.others
    assert better.parity is not None
    assert small.parity is not None
    assert better.parity.mean_kl < small.parity.mean_kl
