"""``seq2edge bench --against``: every tool returns the same tokens, and errors name what is missing."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_checkpoint import SENTENCES, TINY, write_checkpoint

from seq2edge.bench.plan import Peers
from seq2edge.bench.report import Report
from seq2edge.bench.run import BenchOptions, run
from seq2edge.bench.system import PeerRequest, open_system
from seq2edge.bench.workload import BenchTexts, search_options
from seq2edge.errors import CheckpointError, DataError, UsageError
from seq2edge.search.batch_decode import decode
from seq2edge_export.checkpoint import load_checkpoint
from seq2edge_export.export import export_bundle
from seq2edge_export.peers import optimum, torch
from seq2edge_export.peers.ctranslate2 import search_arguments
from seq2edge_export.source_model import TorchEngine

ROOT = Path(__file__).parents[3]
BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
from seq2edge.cli.main import main
main(prog_name="seq2edge")
"""


@pytest.fixture
def checkpoint(made: Any) -> Path:
    path: Path = made.checkpoint
    return path


@pytest.fixture
def bundle(made: Any) -> Path:
    path: Path = made.bundles["ort"]
    return path


def against(
    name: str,
    checkpoint: Path,
    *bundles: Path,
    memory: bool = False,
    optimum_python: Path = Path("no-such-python"),
) -> Report:
    texts = BenchTexts(SENTENCES[:6])
    peers = Peers(names=(name,), checkpoint=checkpoint, optimum_python=optimum_python)
    return run(
        BenchOptions(
            bundles=bundles, num_beams=(1, 3), batch_sizes=(3,), rounds=1, memory=memory, texts=texts, peers=peers
        )
    )


def test_transformers_returns_the_same_tokens(checkpoint: Path, bundle: Path) -> None:
    report = against("torch", checkpoint, bundle)
    ours, theirs = report.measurements[:2]
    assert (theirs.kind, theirs.precision) == ("torch", "fp32")
    assert "transformers" in theirs.tool
    for one in (ours, report.measurements[2]):
        assert one.beside["torch"].equal == one.sentences == 6


def test_a_model_that_transformers_lacks_runs_in_our_own_pytorch_model(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint", replace(TINY, norm_first=False))
    source_model = load_checkpoint(checkpoint).source_model()
    request = PeerRequest(checkpoint=checkpoint, bundles=(), precisions=("fp32",), folder=tmp_path)
    [plan] = torch.prepare(request)
    assert "our own model" in plan.tool
    sources = source_model.tokenizer().encode(SENTENCES[:6])
    options = search_options(source_model.generation, num_beams=3, longest=24)
    ranked = decode(TorchEngine(source_model.graphs, pad=source_model.tokens.pad), sources, options)
    assert open_system(plan).translate(sources, options).outputs == [best.tokens for best, *_ in ranked]
    with pytest.raises(CheckpointError, match="neither Marian nor Pegasus: it has a final norm without"):
        optimum.prepare(request)


def test_a_bundle_of_another_model_is_refused(tmp_path: Path, bundle: Path) -> None:
    other = write_checkpoint(tmp_path / "other", replace(TINY, decoder_layers=1))
    with pytest.raises(DataError, match="was not made from this checkpoint"):
        against("torch", other, bundle)


def test_optimum_without_its_environment_says_how_to_make_it(checkpoint: Path, bundle: Path) -> None:
    with pytest.raises(UsageError, match="no-such-python does not exist: run  make optimum"):
        against("optimum", checkpoint, bundle)


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("ctranslate2", ["--against", "ctranslate2"], "bench"),
        ("transformers", ["--against", "torch"], "bench"),
        ("torch", ["--against", "torch"], "export"),
        ("matplotlib", ["--plot", "x.png"], "plot"),
        ("sacrebleu", ["-i", __file__, "-r", __file__], "bleu"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    checkpoint: Path, bundle: Path, package: str, arguments: list[str], extra: str
) -> None:
    program = [sys.executable, "-c", BLOCK.format(package=package), "bench", "-m", bundle, "--checkpoint", checkpoint]
    done = subprocess.run([*program, "--no-memory", *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: this needs {package}, which is not installed: run  pip install 'seq2edge[{extra}]'\n"
    )


@pytest.mark.peers
@pytest.mark.parametrize("shape", [TINY, replace(TINY, norm_first=False, final_norm=False, zero_start=True)])
def test_ctranslate2_returns_the_same_tokens(tmp_path: Path, shape: object) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint", shape)  # type: ignore[arg-type]
    made = export_bundle(checkpoint, tmp_path / "bundle", compare=False).folder
    report = against("ctranslate2", checkpoint, made, memory=True)
    greedy, beams = (one for one in report.measurements if one.kind == "seq2edge")
    assert greedy.beside["ctranslate2"].equal == beams.beside["ctranslate2"].equal == 6
    assert report.measurements[1].peak_bytes


def test_options_that_ctranslate2_lacks_are_refused(checkpoint: Path) -> None:
    options = replace(load_checkpoint(checkpoint).generation, forced_bos_token_id=5)
    with pytest.raises(UsageError, match="CTranslate2 has no forced_bos_token_id"):
        search_arguments(options)


@pytest.mark.peers
def test_optimum_returns_the_same_tokens(checkpoint: Path, bundle: Path) -> None:
    python = Path(os.environ.get("SEQ2EDGE_OPTIMUM_PYTHON", ROOT / ".venv-optimum/bin/python"))
    if not python.is_file():
        pytest.skip("its environment is not there: make optimum")
    report = against("optimum", checkpoint, bundle, memory=True, optimum_python=python)
    assert [one.beside["optimum"].equal for one in report.measurements if one.beside] == [6, 6]
    assert all(one.peak_bytes for one in report.measurements)
