"""Exporting: complete or absent, reproducible, and with all problems named before anything is written."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_checkpoint import TINY, write_checkpoint
from tolerances import int8_rounding, log_probability_rounding

from seq2edge import Translator
from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import load_bundle
from seq2edge.errors import BundleError, CheckpointError, ParityError, UsageError
from seq2edge.scoring.scorer import forced_log_probabilities, open_scorer
from seq2edge_export.export import export_bundle
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.training.tokenizer import TOKENS
from seq2edge_graphs.bundle_writer import ALIGNMENT, INLINE_BYTES

GRAPHS = (tensor_names.ENCODER, tensor_names.DECODER, tensor_names.SCORER)


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "seq2edge", "export", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, check=False)


@pytest.fixture
def checkpoint(made, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.checkpoint, tmp_path / "checkpoint"))


def rewrite(checkpoint: Path, change) -> None:
    path = checkpoint / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def test_the_export_decides_how_texts_are_split(made, tmp_path: Path) -> None:
    assert load_bundle(made.bundles["ort"]).manifest.split == "sentences"
    done = command(made.checkpoint, tmp_path / "bundle", "--split", "none", "--no-verify")
    assert done.returncode == 0, done.stderr
    assert load_bundle(tmp_path / "bundle").manifest.split == "none"
    with pytest.raises(UsageError, match="split is 'words'"):
        export_bundle(made.checkpoint, tmp_path / "other", split="words")  # type: ignore[arg-type]


def test_force_replaces_a_bundle_and_the_same_checkpoint_gives_the_same_bytes(made, tmp_path: Path) -> None:
    first = made.bundles["ort"]
    again = Path(shutil.copytree(first, tmp_path / "again"))
    (again / "old").write_text("old")
    export_bundle(made.checkpoint, again, force=True)
    assert list(tmp_path.iterdir()) == [again]
    assert sorted(path.name for path in first.iterdir()) == sorted(path.name for path in again.iterdir())
    for path in first.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name


def test_every_tensor_is_on_disk_once(bundle: Path) -> None:
    """The weights file holds each parameter and the position table once; the graphs themselves are small."""
    sizes = [4 * parameter.numel() for parameter in Transformer(TINY).parameters()]
    large = [size for size in sizes if size >= INLINE_BYTES]
    expected = sum(large) + 4 * TINY.max_positions * TINY.width
    assert expected <= (bundle / tensor_names.WEIGHTS).stat().st_size <= expected + ALIGNMENT * len(large)
    for name in GRAPHS:
        assert (bundle / name).stat().st_size < 60_000


@pytest.mark.parametrize("graph", [tensor_names.DECODER, tensor_names.SCORER])
def test_the_weights_have_the_names_of_the_parameters(made, graph: str) -> None:
    model = onnx.load(made.bundles["ort"] / graph, load_external_data=False)
    large = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) == 2}
    assert {"decoder.0.attention.packed.weight", "decoder.1.cross.output.weight"} <= large
    assert not [name for name in large if name.startswith("val_")]


def test_the_graphs_hold_no_path_of_the_machine(made) -> None:
    for name in GRAPHS:
        content = (made.bundles["ort"] / name).read_bytes()
        assert b".py" not in content
        assert str(Path.home()).encode() not in content


def test_license_and_attribution_are_in_the_manifest(made) -> None:
    rights = load_bundle(made.bundles["ort"]).manifest.rights
    assert (rights.license, rights.attribution) == ("CC0-1.0", "nobody")


def test_an_existing_bundle_is_replaced_only_with_force(made, tmp_path: Path) -> None:
    target = Path(shutil.copytree(made.bundles["ort"], tmp_path / "bundle"))
    (target / "mine").write_text("keep")
    with pytest.raises(UsageError, match="--force"):
        export_bundle(made.checkpoint, target)
    assert (target / "mine").read_text() == "keep"


@pytest.mark.parametrize("kind", ["file", "folder", "link", "checkpoint", "parent"])
def test_force_replaces_nothing_but_a_bundle(checkpoint: Path, tmp_path: Path, kind: str) -> None:
    target = {"checkpoint": checkpoint, "parent": tmp_path}.get(kind, tmp_path / "target")
    if kind == "file":
        target.write_text("mine")
    elif kind == "folder":
        target.mkdir()
        (target / "mine").write_text("mine")
    elif kind == "link":
        target.symlink_to(checkpoint)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(UsageError):
        export_bundle(checkpoint, target, force=True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("target", ["file/bundle", "."])
def test_a_target_that_cannot_be_written_is_one_sentence(made, tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_text("mine")
    done = command(made.checkpoint, tmp_path / target if target != "." else ".", "--no-verify")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_generation_options_and_vocabulary_must_match_the_model(checkpoint: Path, tmp_path: Path) -> None:
    path = checkpoint / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "max_new_tokens": 1000}))
    with pytest.raises(CheckpointError, match="allow 1000 tokens"):
        export_bundle(checkpoint, tmp_path / "bundle")


def test_fewer_bits_make_a_smaller_bundle(made, tmp_path: Path) -> None:
    small = export_bundle(made.checkpoint, tmp_path / "int8", precision="int8", compare=False)
    full = load_bundle(made.bundles["ort"])
    sizes = [bundle.manifest.files[tensor_names.WEIGHTS].size for bundle in (small, full)]
    assert sizes[0] < 0.45 * sizes[1]
    assert small.manifest.precision == "int8"
    translator = Translator(small.folder, threads=1)
    sources = translator.tokenizer.encode(["nobody sells bread."])
    targets = [result.tokens for result in translator.translate(["nobody sells bread."])]
    scorer = open_scorer(small, translator.engine)
    assert scorer is not None
    (scored,) = scorer.score(sources, targets, start=TOKENS.bos)
    (stepped,) = forced_log_probabilities(translator.engine, sources, targets, start=TOKENS.bos)
    assert len(stepped) > 0
    limit = log_probability_rounding(int8_rounding(TINY.width, size=10))
    np.testing.assert_allclose(scored.log_probabilities, stepped, rtol=0, atol=limit)


def test_all_problems_of_the_weights_are_named_in_one_error(checkpoint: Path, tmp_path: Path) -> None:
    def spoil(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["encoder.0.attention.query.bias"]
        tensors["stranger"] = torch.zeros(2)
        tensors["encoder.1.attention.query.bias"] = torch.zeros(3)
        tensors["decoder.0.cross.query.bias"][1] = float("nan")
        tensors["decoder_norm.weight"] = torch.ones(32, dtype=torch.int64)

    rewrite(checkpoint, spoil)
    with pytest.raises(CheckpointError) as caught:
        export_bundle(checkpoint, tmp_path / "bundle")
    for words in (
        "encoder.0.attention.query.bias is missing",
        "stranger is not part of the model",
        "encoder.1.attention.query.bias has the shape (3,) instead of (32,)",
        "decoder.0.cross.query.bias contains NaN",
        "decoder_norm.weight has the dtype torch.int64",
    ):
        assert words in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint"]


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("config.json", "{", "config.json"),
        ("config.json", '{"format_version": 1}', "lacks the key 'architecture'"),
        ("model.safetensors", "not safetensors", "cannot be read as safetensors"),
        ("tokenizer.model", "not sentencepiece", "SentencePiece"),
        ("generation_config.json", '{"num_beams": 0}', "generation_config.json"),
    ],
)
def test_a_broken_checkpoint_is_one_sentence(
    checkpoint: Path, tmp_path: Path, file: str, content: str, words: str
) -> None:
    (checkpoint / file).write_text(content)
    done = command(checkpoint, tmp_path / "bundle")
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint"]


def test_a_missing_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    done = command(tmp_path / "nothing", tmp_path / "bundle")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_bundle_that_fails_the_comparison_is_not_written(
    made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Change one weight of the traced encoder before it is written."""
    from seq2edge_export import export

    def wrong_strip(model) -> None:
        value = model.graph.initializers.get("encoder.0.feed_forward.output.weight")
        if value is not None:
            numbers = value.const_value.numpy().copy()
            numbers[0, 0] += 3
            value.const_value = ir.tensor(numbers, name=value.name)

    monkeypatch.setattr(export, "strip", wrong_strip)
    with pytest.raises(ParityError, match=r"encoder\.0\.feed_forward"):
        export_bundle(made.checkpoint, tmp_path / "bundle")
    assert not list(tmp_path.iterdir())


@pytest.mark.trust
def test_kill_9_leaves_nothing_that_loads_and_the_next_export_cleans_up(made, tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    program = [sys.executable, "-m", "seq2edge", "export", str(made.checkpoint), str(target)]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL) as process:
        left = tmp_path / f".bundle.{process.pid}.new"
        while not (left / "tokenizer.model").exists() and process.poll() is None:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)  # while it compares
    assert not target.exists()
    assert (left / tensor_names.DECODER).exists()
    with pytest.raises(BundleError):
        load_bundle(left)
    export_bundle(made.checkpoint, target, compare=False)
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.trust
def test_a_full_disk_is_one_sentence_and_leaves_nothing(made, tmp_path: Path) -> None:
    limit = (50_000, 50_000)  # bytes of a file: enough for the graphs, not for the weights
    program = [sys.executable, "-m", "seq2edge", "export", str(made.checkpoint), str(tmp_path / "bundle")]
    done = subprocess.run(
        program,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.trust
def test_an_interrupt_leaves_nothing(made, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "seq2edge", "export", str(made.checkpoint), str(tmp_path / "bundle")]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while not list(tmp_path.iterdir()) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not list(tmp_path.iterdir())


def test_the_command_prints_the_size_for_each_parameter(made, tmp_path: Path) -> None:
    done = command(made.checkpoint, tmp_path / "bundle", "--no-verify")
    assert done.returncode == 0, done.stderr
    assert "million parameters" in done.stdout
    assert json.loads((tmp_path / "bundle" / tensor_names.MANIFEST).read_text())["parity"] is None


def test_a_checkpoint_with_a_newer_format_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    config["format_version"] = 99
    (checkpoint / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="format_version is 99"):
        export_bundle(checkpoint, tmp_path / "bundle")


def test_more_beams_of_a_large_vocabulary_than_memory_holds_are_refused(tmp_path: Path) -> None:
    """100,000 rows of 200,000 logits take 80 GB, and their candidates many times as much."""
    large = replace(TINY, source_vocabulary=200_000, target_vocabulary=200_000, width=8, heads=1)
    export_bundle(write_checkpoint(tmp_path / "checkpoint", large), tmp_path / "bundle", compare=False)
    translator = Translator(tmp_path / "bundle", threads=1)
    with pytest.raises(UsageError, match=r"^num_beams is 100000, which takes at least \d+\.\d GB of memory"):
        translator.translate(["the old man"], num_beams=100_000)
    assert translator.translate(["the old man"], num_beams=4)[0].tokens
