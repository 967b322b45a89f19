"""``verify`` accepts a correct bundle, and detects and locates differences."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from tiny_checkpoint import SENTENCES, TINY, write_checkpoint
from tolerances import network_rounding

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import load_bundle
from seq2edge.errors import DataError, UsageError
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.training.config import TokenizerSettings
from seq2edge_export.training.data import Pairs
from seq2edge_export.training.tokenizer import train_tokenizer
from seq2edge_export.verify import to_json, verify
from seq2edge_graphs.bundle_writer import describe_files, write_manifest
from seq2edge_graphs.parity.sentences import read_texts

TINY_TOKENIZER = TokenizerSettings(vocabulary=TINY.target_vocabulary - 10)


def break_weight(bundle: Path, graph: str, weight: str, target: Path, *, add: float = 2.0) -> Path:
    """Copy a bundle and change one value of one weight, with matching hashes."""
    shutil.copytree(bundle, target)
    model = onnx.load(target / graph, load_external_data=False)
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == weight)
    offset = int(next(entry.value for entry in tensor.external_data if entry.key == "offset"))
    content = bytearray((target / tensor_names.WEIGHTS).read_bytes())
    number = np.frombuffer(content[offset + 40 : offset + 44], np.float32) + np.float32(add)
    content[offset + 40 : offset + 44] = number.tobytes()
    (target / tensor_names.WEIGHTS).write_bytes(content)
    manifest = load_bundle(bundle).manifest
    write_manifest(target, replace(manifest, files=describe_files(target)))
    return target


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "seq2edge", "verify", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def test_an_exported_bundle_matches_its_source_model(bundle: Path, made) -> None:
    verdict = verify(load_bundle(bundle), load_checkpoint(made.checkpoint).source_model())
    assert verdict.passed
    assert verdict.parity.greedy_equal == verdict.parity.beam_equal == verdict.parity.top1_agreement == 1.0
    assert verdict.parity.logit_difference < network_rounding(TINY, size=10)
    assert verdict.parity.sentences >= 10


def test_the_parity_report_is_in_the_manifest(bundle: Path) -> None:
    parity = load_bundle(bundle).manifest.parity
    assert parity is not None
    assert parity.greedy_equal == 1.0
    assert parity.batch_sizes == (1, 8)


@pytest.mark.parametrize(
    ("graph", "weight", "layer"),
    [
        (tensor_names.ENCODER, "encoder.1.attention.key.weight", "encoder.1.attention.key"),
        (tensor_names.DECODER, "decoder.1.feed_forward.inner.weight", "decoder.1.feed_forward.inner"),
    ],
)
def test_a_changed_weight_is_detected_and_located(made, tmp_path: Path, graph: str, weight: str, layer: str) -> None:
    broken = break_weight(made.bundles["ort"], graph, weight, tmp_path / "broken")
    verdict = verify(load_bundle(broken), load_checkpoint(made.checkpoint).source_model())
    assert not verdict.passed
    assert verdict.divergence is not None
    assert verdict.divergence.layer == layer
    assert layer in str(verdict)


def test_a_nan_weight_is_detected_and_located(made, tmp_path: Path) -> None:
    weight = "decoder.0.feed_forward.inner.weight"
    broken = break_weight(made.bundles["ort"], tensor_names.DECODER, weight, tmp_path / "broken", add=float("nan"))
    verdict = verify(load_bundle(broken), load_checkpoint(made.checkpoint).source_model())
    assert not verdict.passed
    assert verdict.divergence is not None
    assert verdict.divergence.layer == "decoder.0.feed_forward.inner"
    assert json.loads(to_json(verdict))["parity"]["logit_difference"] is None


def test_other_settings_or_another_vocabulary_are_detected(made, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made.bundles["ort"], tmp_path / "other"))
    vocabulary = train_tokenizer([Pairs(Path("none"), SENTENCES[::2], SENTENCES[::3])], TINY_TOKENIZER, seed=1)
    (folder / "tokenizer.model").write_bytes(vocabulary["tokenizer.model"])
    manifest = load_bundle(made.bundles["ort"]).manifest
    generation = replace(manifest.generation, num_beams=2)
    write_manifest(folder, replace(manifest, generation=generation, files=describe_files(folder)))
    verdict = verify(load_bundle(folder), load_checkpoint(made.checkpoint).source_model())
    assert "tokenizer.model differs from the source model's" in verdict.failures
    assert "the search defaults differ from the source model's" in verdict.failures


def test_a_checkpoint_of_another_architecture_is_refused(made, tmp_path: Path) -> None:
    other = load_checkpoint(write_checkpoint(tmp_path / "other", replace(TINY, width=64))).source_model()
    with pytest.raises(DataError, match=r"was not made from this checkpoint: it has .*width 32 instead of 64"):
        verify(load_bundle(made.bundles["ort"]), other)


def test_the_command_fails_with_exit_code_1(made, tmp_path: Path) -> None:
    weight = "decoder.0.cross.output.weight"
    broken = break_weight(made.bundles["portable"], tensor_names.DECODER, weight, tmp_path / "broken")
    done = command(broken, "--against", made.checkpoint)
    assert done.returncode == 1
    assert done.stdout.endswith("failed\n")
    assert "decoder.0.cross" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_command_passes_and_prints_json(made, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the old man sees bread.\n\nnobody wants apples.\n", encoding="utf-8")
    (tmp_path / "ref.txt").write_text("x\n\ny\n", encoding="utf-8")
    options = ["--input", tmp_path / "in.txt", "--reference", tmp_path / "ref.txt", "--json"]
    done = command(made.bundles["ort"], "--against", made.checkpoint, *options)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["passed"] is True
    assert content["parity"]["sentences"] == 2
    assert content["parity"]["quality"]["bleu_original"] == content["parity"]["quality"]["bleu_bundle"]


def test_unusable_sentence_files_are_refused(tmp_path: Path) -> None:
    full, empty, one = (tmp_path / name for name in ("full.txt", "empty.txt", "one.txt"))
    full.write_text("a\nb\n", encoding="utf-8")
    empty.write_text("\n \n", encoding="utf-8")
    one.write_text("a\n", encoding="utf-8")
    with pytest.raises(UsageError, match="--reference needs --input"):
        read_texts(None, full)
    with pytest.raises(DataError, match="contains no sentence"):
        read_texts(empty, None)
    with pytest.raises(DataError, match="2 lines, but"):
        read_texts(full, one)
