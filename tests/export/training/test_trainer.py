import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from seq2edge.errors import DataError, UsageError
from seq2edge_export.checkpoint import load_checkpoint, read_config
from seq2edge_export.training import loop
from seq2edge_export.training.checkpointing import read_state
from seq2edge_export.training.config import Job
from seq2edge_export.training.learner import Learner
from seq2edge_export.training.loop import train

pytestmark = pytest.mark.usefixtures("quick_curves")
MakeJob = Callable[..., Job]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, make_job: MakeJob, nobody: Any) -> Job:
    """Return a short, finished run."""
    job = make_job(
        tmp_path_factory.mktemp("done") / "a" / "checkpoint",
        source_language="en",
        target_language="ne",
        license="CC BY 4.0",
        attribution="the toy | language",
    )
    train(job, resume=False, observer=nobody)
    return job


def test_a_tiny_model_learns_the_toy_language(tmp_path: Path, make_job: MakeJob, observer: Any) -> None:
    lines = make_job(tmp_path).train[0].path.read_text(encoding="utf-8").splitlines()[:40]
    (tmp_path / "few.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    job = make_job(
        tmp_path / "out",
        train=tmp_path / "few.tsv",
        dev=tmp_path / "few.tsv",
        width=32,
        feed_forward=64,
        accumulate=1,
        dropout=0.0,
        label_smoothing=0.0,
        max_steps=350,
        warmup_steps=50,
        cooldown_steps=100,
        evaluate_every=175,
        average=1,
    )
    best = train(job, resume=False, observer=observer)
    assert best.dev_bleu > 90
    assert best.dev_loss < 0.1
    assert observer.losses[-1] < observer.losses[0] / 20
    assert observer.best == [True, True]


def test_the_checkpoint_is_complete_and_can_be_loaded(done: Job) -> None:
    checkpoint = load_checkpoint(done.output)
    assert checkpoint.config.architecture == done.architecture
    assert (checkpoint.config.source_language, checkpoint.config.target_language) == ("en", "ne")
    assert checkpoint.config.license == "CC BY 4.0"
    assert checkpoint.generation.decoder_start_token_id == checkpoint.config.tokens.bos
    assert checkpoint.source_model().tokenizer().encode(["the cat"])[0][-1] == checkpoint.config.tokens.eos
    names = {path.name for path in done.output.iterdir()}
    files = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.model", "README.md"}
    assert names == {*files, "training"}


def test_the_curves_are_a_table_and_a_picture(done: Job) -> None:
    with (done.work / "log.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [4, 8, 12]
    assert all(float(row[name]) > 0 for row in rows for name in ("epoch", "seconds", "train_loss", "dev_loss"))
    assert (done.work / "curves.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_the_card_has_license_attribution_recipe_and_quality(done: Job) -> None:
    card = (done.output / "README.md").read_text(encoding="utf-8")
    for part in (
        "# Translation from en to ne",
        "Licence: CC BY 4.0",
        "Attribution: the toy | language",
        "on 8 pairs of `dev.tsv`",
        "100 pairs of `train.tsv`",
        "| `--batch-tokens` | 512 |",
        "| `--joint-vocabulary` | |",
        "| `--no-gated` | |",
    ):
        assert part in card


def test_the_checkpoint_is_the_best_average(done: Job) -> None:
    rows = read_state(done.state)["progress"]["history"]
    assert min(rows, key=lambda row: row["dev_loss"]) is rows[-1]  # BLEU is noise
    files = sorted(done.work.glob("weights-*.safetensors"))
    assert [path.stem for path in files] == ["weights-00000008", "weights-00000012"]
    first, second = (load_file(path) for path in files)
    for name, tensor in load_file(done.output / "model.safetensors").items():
        assert torch.equal(tensor, ((first[name].double() + second[name].double()) / 2).float())


def test_training_stops_early_when_bleu_no_longer_improves(
    tmp_path: Path, make_job: MakeJob, observer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([81.0, 83.0, 82.0, 82.5, 89.0])  # below 79 they are noise: eight sentences have 40 4-grams
    monkeypatch.setattr(loop, "dev_bleu", lambda *_: next(scores))
    best = train(make_job(tmp_path / "out", max_steps=100, patience=2), resume=False, observer=observer)
    assert (best.step, best.dev_bleu) == (8, 83.0)
    assert [row.step for row in observer.rows] == [4, 8, 12, 16]
    assert observer.best == [True, True, False, False]


def test_the_last_update_is_always_evaluated(tmp_path: Path, make_job: MakeJob, observer: Any) -> None:
    train(make_job(tmp_path / "out", max_steps=6), resume=False, observer=observer)
    assert [row.step for row in observer.rows] == [4, 6]


def test_separate_vocabularies_and_bpe_train_as_well(tmp_path: Path, make_job: MakeJob, observer: Any) -> None:
    job = make_job(tmp_path / "out", joint_vocabulary=False, tokenizer="bpe", vocabulary=285, max_steps=2)
    train(job, resume=False, observer=observer)
    config = read_config(job.output)
    assert (config.source_tokenizer, config.target_tokenizer) == ("source.model", "target.model")
    assert load_checkpoint(job.output).config.architecture.joint_vocabulary is False


def test_weights_can_be_stored_in_half_the_space(tmp_path: Path, make_job: MakeJob, observer: Any, done: Job) -> None:
    job = make_job(tmp_path / "out", store="fp16")
    train(job, resume=False, observer=observer)
    stored, full = (load_file(folder / "model.safetensors") for folder in (job.output, done.output))
    for name, tensor in stored.items():
        assert tensor.dtype == torch.float16
        assert torch.equal(tensor, full[name].half())
    load_checkpoint(job.output)


def test_skipped_lines_and_long_pairs_are_reported(tmp_path: Path, make_job: MakeJob, observer: Any) -> None:
    good = make_job(tmp_path).train[0].path.read_text(encoding="utf-8")
    (tmp_path / "mixed.tsv").write_text(good + "no tab\n" + "cat " * 90 + "\ttac\n", encoding="utf-8")
    train(make_job(tmp_path / "out", train=tmp_path / "mixed.tsv", max_steps=1), resume=False, observer=observer)
    messages = "\n".join(observer.messages)
    assert "training on the CPU in fp32 with 1 thread" in messages
    assert "mixed.tsv: 101 pairs, 1 lines skipped (1 without a tab)" in messages
    assert "mixed.tsv: 1 pairs omitted (1 longer than 64 tokens)" in messages


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"vocabulary": 5000}, "--vocabulary 5000 is too large"),
        ({"max_positions": 2}, "no usable pair.*100 longer than 2 tokens"),
        ({"train": Path("missing.tsv")}, r"missing.tsv cannot be read"),
    ],
)
def test_a_failed_start_leaves_nothing_and_can_be_repeated(
    tmp_path: Path, make_job: MakeJob, observer: Any, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((UsageError, DataError), match=sentence):
        train(make_job(tmp_path / "out", **changes), resume=False, observer=observer)
    assert not (tmp_path / "out").exists()
    train(make_job(tmp_path / "out", max_steps=1), resume=False, observer=observer)


def test_a_diverging_training_names_the_update_and_keeps_the_last_good_state(
    tmp_path: Path, make_job: MakeJob, observer: Any
) -> None:
    job = make_job(tmp_path / "out", learning_rate=1e30, warmup_steps=0, save_every=1)
    with pytest.raises(UsageError, match=r"diverged: update \d+ has a loss of \S+ .* lower --learning-rate"):
        train(job, resume=False, observer=observer)
    state = read_state(job.state)
    assert state["progress"]["step"] == len(observer.losses)
    assert all(tensor.isfinite().all() for tensor in state["model"].values())


def test_too_little_memory_is_an_error_with_advice(
    tmp_path: Path, make_job: MakeJob, observer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overflow(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Learner, "update", overflow)
    with pytest.raises(UsageError, match="--batch-tokens 512 is too much"):
        train(make_job(tmp_path / "out"), resume=False, observer=observer)


def test_an_output_that_cannot_be_made_is_an_error_in_one_sentence(
    tmp_path: Path, make_job: MakeJob, observer: Any
) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(UsageError, match="file is a file, but --output must be a folder"):
        train(make_job(tmp_path / "file"), resume=False, observer=observer)
    with pytest.raises(DataError, match=r"cannot be written \(not a directory\)"):
        train(make_job(tmp_path / "file" / "out"), resume=False, observer=observer)


@pytest.mark.parametrize("size", [20_000, 60_000, 100_000])  # less than a vocabulary, weights and a state
def test_a_full_disk_is_an_error_after_which_the_training_continues(
    tmp_path: Path, make_job: MakeJob, observer: Any, done: Job, size: int
) -> None:
    resource = pytest.importorskip("resource")
    job, limits = make_job(tmp_path / "out"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(DataError, match=r"cannot be written \(.*file too large.*continue with --resume"):
            train(job, resume=False, observer=observer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    train(job, resume=True, observer=observer)
    assert (job.output / "model.safetensors").read_bytes() == (done.output / "model.safetensors").read_bytes()
