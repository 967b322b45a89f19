import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from seq2edge.errors import CheckpointError, UsageError
from seq2edge_export.checkpoint import read_config
from seq2edge_export.training.checkpointing import read_state
from seq2edge_export.training.config import Job, ModelSettings, TokenizerSettings, TrainingSettings
from seq2edge_export.training.loop import train

pytestmark = pytest.mark.usefixtures("quick_curves")
MakeJob = Callable[..., Job]


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory, make_job: MakeJob, nobody: Any) -> Path:
    """Return the folder of a run of six updates."""
    folder = tmp_path_factory.mktemp("six") / "out"
    train(make_job(folder, max_steps=6, source_language="en"), resume=False, observer=nobody)
    return folder


@pytest.fixture
def output(six: Path, tmp_path: Path) -> Path:
    """Return a copy of that run."""
    return shutil.copytree(six, tmp_path / "out")


def test_a_folder_with_a_run_is_not_overwritten(output: Path, make_job: MakeJob, observer: Any) -> None:
    before = (output / "training" / "state.pt").read_bytes()
    with pytest.raises(UsageError, match="is not empty; use --resume to continue"):
        train(make_job(output), resume=False, observer=observer)
    assert (output / "training" / "state.pt").read_bytes() == before


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_with_other_files_is_refused(tmp_path: Path, make_job: MakeJob, observer: Any, resume: bool) -> None:
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    (tmp_path / "training").mkdir()
    with pytest.raises(UsageError, match="contains no training to resume" if resume else "is not empty"):
        train(make_job(tmp_path), resume=resume, observer=observer)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"


def test_resuming_without_a_run_starts_one_with_a_message(tmp_path: Path, make_job: MakeJob, observer: Any) -> None:
    train(make_job(tmp_path / "out", max_steps=1), resume=True, observer=observer)
    assert "contains nothing to resume yet: starting from the beginning" in observer.messages[0]


@pytest.mark.parametrize(
    "changes",
    [{"width": 32}, {"learning_rate": 0.5}, {"seed": 2}, {"vocabulary": 280}, {"accumulate": 1}, {"gated": True}],
)
def test_settings_that_affect_the_updates_must_not_change(
    output: Path, make_job: MakeJob, observer: Any, changes: dict[str, Any]
) -> None:
    (name, value) = next(iter(changes.items()))
    with pytest.raises(UsageError, match=f"must keep its settings, but --{name.replace('_', '-')} was .* is {value}$"):
        train(make_job(output, **changes), resume=True, observer=observer)


def test_a_run_can_be_made_longer(output: Path, make_job: MakeJob, observer: Any) -> None:
    train(make_job(output, max_steps=8, save_every=1, patience=3), resume=True, observer=observer)
    assert "resuming after 6 updates" in observer.messages
    assert [row.step for row in observer.rows] == [8]


def test_a_run_cannot_be_made_shorter_than_it_is(output: Path, make_job: MakeJob, observer: Any) -> None:
    with pytest.raises(UsageError, match="--max-steps is 5, but 6 updates are already done"):
        train(make_job(output, max_steps=5), resume=True, observer=observer)


def test_resuming_a_finished_run_returns_its_result(output: Path, make_job: MakeJob, observer: Any) -> None:
    best = train(make_job(output, max_steps=6, license="MIT", attribution="us"), resume=True, observer=observer)
    assert best.step == 6
    assert not observer.rows
    assert read_config(output).license == "MIT"
    assert "Attribution: us" in (output / "README.md").read_text(encoding="utf-8")


def test_languages_may_be_left_out_but_not_changed(output: Path, make_job: MakeJob, observer: Any) -> None:
    with pytest.raises(UsageError, match="must keep its languages, but 'en' became 'fr'"):
        train(make_job(output, source_language="fr"), resume=True, observer=observer)
    train(make_job(output, max_steps=6), resume=True, observer=observer)
    assert read_config(output).source_language == "en"


def test_the_weights_of_a_finished_run_can_be_converted(output: Path, make_job: MakeJob, observer: Any) -> None:
    full = load_file(output / "model.safetensors")
    for store, dtype in (("fp16", torch.float16), ("fp32", torch.float32)):
        train(make_job(output, max_steps=6, store=store), resume=True, observer=observer)
        stored = load_file(output / "model.safetensors")
        assert all(torch.equal(stored[name], full[name].half().to(dtype)) for name in full)


def test_a_setting_missing_from_an_old_state_has_its_default(output: Path, make_job: MakeJob, observer: Any) -> None:
    state = read_state(output / "training" / "state.pt")
    for name in ("store", "bleu_tokenizer", "dropout"):
        del state["settings"][name]
    torch.save(state, output / "training" / "state.pt")
    train(make_job(output, max_steps=7), resume=True, observer=observer)
    assert len(observer.losses) == 1


def test_a_state_of_an_older_version_keeps_the_checkpoint_that_it_describes(
    output: Path, make_job: MakeJob, observer: Any
) -> None:
    path = output / "training" / "state.pt"
    state = read_state(path)
    del state["progress"]["best_step"], state["settings"]["split_digits"]
    for row, bleu in zip(state["progress"]["history"], (0.43, 0.33), strict=True):  # it took the highest BLEU
        row["dev_bleu"] = bleu
    torch.save(state, path)
    assert train(make_job(output, max_steps=6), resume=True, observer=observer).step == 4
    assert "measured after 4 updates" in (output / "README.md").read_text(encoding="utf-8")
    assert train(make_job(output, max_steps=8), resume=True, observer=observer).step == 8  # has a lower loss


def test_incomplete_files_and_later_weights_are_deleted(output: Path, make_job: MakeJob, observer: Any) -> None:
    left = [output / ".model.safetensors.77.new", output / ".tmpAbCdEf", output / "training" / ".state.pt.77.new"]
    for path in (*left, output / "training" / "weights-00000008.safetensors"):
        path.write_bytes(b"half")
    train(make_job(output, max_steps=6), resume=True, observer=observer)
    assert not any(path.exists() for path in left)
    assert [path.stem for path in (output / "training").glob("weights-*")] == ["weights-00000004", "weights-00000006"]


@pytest.mark.parametrize("content", [b"", b"not a state", None])
def test_a_broken_state_is_an_error_in_one_sentence(
    output: Path, make_job: MakeJob, observer: Any, content: bytes | None
) -> None:
    path = output / "training" / "state.pt"
    torch.save({"model": {}}, path) if content is None else path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"state.pt is not a training state"):
        train(make_job(output), resume=True, observer=observer)


def test_the_names_of_settings_are_unique_across_the_three_groups() -> None:
    groups = [asdict(TokenizerSettings()), asdict(ModelSettings()), asdict(TrainingSettings())]
    assert len({name for group in groups for name in group}) == sum(map(len, groups))
