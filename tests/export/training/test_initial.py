import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from seq2edge.cli.main import main
from seq2edge.errors import CheckpointError, UsageError
from seq2edge_export.checkpoint import read_config
from seq2edge_export.training.checkpointing import read_state
from seq2edge_export.training.config import Job
from seq2edge_export.training.loop import train

pytestmark = pytest.mark.usefixtures("quick_curves")
MakeJob = Callable[..., Job]
MODEL = {"vocabulary": 8000, "width": 256, "heads": 4, "encoder_layers": 6, "decoder_layers": 2, "feed_forward": 1024}
RATE = 1e-12
DEFAULTS = {**MODEL, "max_positions": 512}  # what a command line without these options has


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, make_job: MakeJob, nobody: Any) -> Path:
    folder = tmp_path_factory.mktemp("first") / "out"
    job = make_job(folder, max_steps=4, source_language="en", license="CC0-1.0", attribution="toys")
    train(job, resume=False, observer=nobody)
    return folder


def test_a_run_starts_from_weights_vocabulary_and_model_of_a_checkpoint(
    first: Path, tmp_path: Path, make_job: MakeJob, observer: Any
) -> None:
    job = make_job(tmp_path / "out", initial=first, max_steps=1, learning_rate=RATE, **DEFAULTS)
    train(job, resume=False, observer=observer)
    before, after = load_file(first / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=2 * RATE)  # AdamW's first update, and decay
    assert (tmp_path / "out/tokenizer.model").read_bytes() == (first / "tokenizer.model").read_bytes()
    assert read_config(tmp_path / "out") == read_config(first)
    assert not any("training a vocabulary" in message for message in observer.messages)
    assert f"| `--from` | {first.name} |" in (tmp_path / "out/README.md").read_text(encoding="utf-8")


def test_such_a_run_can_be_resumed_without_the_first_checkpoint_changing_it(
    first: Path, tmp_path: Path, make_job: MakeJob, observer: Any
) -> None:
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    train(make_job(whole, initial=first, max_steps=4, **DEFAULTS), resume=False, observer=observer)
    train(make_job(halves, initial=first, max_steps=2, **DEFAULTS), resume=False, observer=observer)
    train(make_job(halves, initial=first, max_steps=4, **DEFAULTS), resume=True, observer=observer)
    states = [read_state(folder / "training/state.pt")["model"] for folder in (whole, halves)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("changes", [{"width": 32}, {"vocabulary": 300}, {"split_digits": True}])
def test_options_that_contradict_the_checkpoint_are_refused(
    first: Path, tmp_path: Path, make_job: MakeJob, observer: Any, changes: dict[str, Any]
) -> None:
    [name] = changes
    with pytest.raises(UsageError, match=f"determines vocabulary and model; omit --{name.replace('_', '-')}, or"):
        train(make_job(tmp_path / "out", initial=first, **{**DEFAULTS, **changes}), resume=False, observer=observer)
    assert not (tmp_path / "out").exists()


def test_a_missing_vocabulary_file_is_one_sentence_and_leaves_nothing(
    first: Path, tmp_path: Path, make_job: MakeJob, observer: Any
) -> None:
    broken = shutil.copytree(first, tmp_path / "broken")
    (broken / "tokenizer.model").unlink()
    with pytest.raises(CheckpointError, match=r"source\.model cannot be read: No such file or directory"):
        train(make_job(tmp_path / "out", initial=broken, **DEFAULTS), resume=False, observer=observer)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_no_checkpoint_is_one_sentence(tmp_path: Path, toy: Path) -> None:
    options = [f"--train={toy / 'train.tsv'}", f"--dev={toy / 'dev.tsv'}", f"--output={tmp_path / 'out'}"]
    result = CliRunner().invoke(main, ["train", *options, f"--from={tmp_path}"])
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: {tmp_path / 'config.json'} cannot be read: No such file or directory\n")
