import gzip
import json
import lzma
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.cli.main import main
from seq2edge.translator import Translator
from seq2edge_export.distillation import labels
from seq2edge_export.training.learner import Learner

SENTENCES = [
    f"{who} {does} the {what}."
    for who in ("Tom", "She")
    for does in ("sees", "likes")
    for what in ("dog", "tree", "car")
]
pytestmark = pytest.mark.usefixtures("quick_curves")
TINY = [
    *("--vocabulary=290", "--width=16", "--heads=2", "--encoder-layers=1", "--decoder-layers=1", "--feed-forward=32"),
    *("--warmup-steps=5", "--max-steps=12", "--evaluate-every=4", "--save-every=2", "--device=cpu", "--threads=1"),
    *("--precision=fp32", "--max-positions=32"),
]
DEV = "I love you.\tEu te amo.\nGood morning.\tBom dia.\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "english.txt"
    path.write_text("\n".join([*SENTENCES, "", "  ", SENTENCES[0].upper(), "I love you."]) + "\n", encoding="utf-8")
    (tmp_path / "dev.tsv").write_text(DEV, encoding="utf-8")
    return path


def arguments(text: Path, *more: str, teacher: Path = DEFAULT_BUNDLE, output: str = "out") -> list[str]:
    folder = text.parent
    return [
        "distill",
        str(teacher),
        f"--text={text}",
        f"--dev={folder / 'dev.tsv'}",
        f"--output={folder / output}",
        *TINY,
        *more,
    ]


def distill(*given: Any, **changes: Any) -> Result:
    return CliRunner().invoke(main, arguments(*given, **changes))


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of everything that does not depend on time."""
    names = ("*.tsv", "*.jsonl", "*.source", "model.safetensors")
    return {path.name: path.read_bytes() for name in names for path in sorted(folder.rglob(name))}


def test_the_labels_are_the_translations_of_the_teacher_each_text_once(text: Path) -> None:
    result = distill(text, "--only=label")
    assert result.exit_code == 0, result.output
    folder = text.parent / "out" / "labels"
    with Translator() as translator:
        expected = [f"{source}\t{translator(source)}" for source in SENTENCES]
    kept = (folder / "english.tsv").read_text(encoding="utf-8").splitlines()
    dropped = (folder / "english.dropped.tsv").read_text(encoding="utf-8").splitlines()
    assert sorted([*kept, *(line.partition("\t")[2] for line in dropped)]) == sorted(expected)
    assert "english.txt: 12 different texts" in result.stderr
    assert not (text.parent / "out" / "model.safetensors").exists()


def test_both_halves_give_the_same_as_one_command(text: Path) -> None:
    assert distill(text).exit_code == 0
    assert distill(text, "--only=label", output="halves").exit_code == 0
    result = distill(text, "--only=train", output="halves")
    assert result.exit_code == 0, result.output
    assert files(text.parent / "out") == files(text.parent / "halves")
    config = json.loads((text.parent / "out" / "config.json").read_text(encoding="utf-8"))
    assert (config["source_language"], config["target_language"]) == ("en", "pt")


@pytest.mark.parametrize("half", ["label", "train"])
def test_an_interrupted_run_continues_with_resume(text: Path, half: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert distill(text).exit_code == 0
    with monkeypatch.context() as patch:
        _interrupt(half, patch)
        assert distill(text, output="cut").exit_code != 0
    result = distill(text, output="cut")
    assert result.exit_code == 2
    assert "use --resume" in result.stderr
    result = distill(text, "--resume", output="cut")
    assert result.exit_code == 0, result.output
    assert files(text.parent / "cut") == files(text.parent / "out")


def _interrupt(half: str, patch: pytest.MonkeyPatch) -> None:
    translate_file, update = labels.translate_file, Learner.update

    def cut_translation(*given: Any, observe: Callable[[int, int], None], **options: Any) -> Any:
        def raise_after_a_batch(lines: int, tokens: int) -> None:
            if tokens:
                raise KeyboardInterrupt

        return translate_file(*given, observe=raise_after_a_batch, **options)

    def cut_update(self: Learner, batches: Any, *, step: int) -> Any:
        if step == 7:
            raise KeyboardInterrupt
        return update(self, batches, step=step)

    if half == "label":
        patch.setattr(labels, "translate_file", cut_translation)
    else:
        patch.setattr(Learner, "update", cut_update)


@pytest.mark.trust
@pytest.mark.parametrize("half", ["label", "train"])
def test_a_killed_run_continues_with_resume(text: Path, half: str) -> None:
    text.write_text("".join(f"Tom has {n} dogs and she has {n + 1} cats.\n" for n in range(600)), encoding="utf-8")
    command = [sys.executable, "-m", "seq2edge", *arguments(text)]
    whole = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert whole.returncode == 0, whole.stderr
    command = [sys.executable, "-m", "seq2edge", *arguments(text, output="killed")]
    journal = text.parent / "killed" / "labels" / ".english.jsonl.part.ahead"
    state = text.parent / "killed" / "training" / "log.csv"
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while not (journal if half == "label" else state).exists() and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert files(text.parent / "killed") == files(text.parent / "out")


def test_finished_labels_are_reused_and_those_of_another_search_refused(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert distill(text, "--only=label").exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr(labels, "translate_file", None)
        assert distill(text, "--only=label", "--resume").exit_code == 0
        result = distill(text, "--only=label", "--resume", "--min-score=-0.0001")
        assert "low score" in result.stderr
    result = distill(text, "--only=label", "--resume", "--num-beams=2")
    assert result.exit_code == 2
    assert "another teacher, of other text or with another search: delete it" in result.stderr


@pytest.mark.parametrize("damage", ["", "{}\n" * len(SENTENCES), "[\n" * len(SENTENCES), "{}\n"])
def test_damaged_labels_are_refused_in_one_sentence(text: Path, damage: str) -> None:
    assert distill(text, "--only=label").exit_code == 0
    made = text.parent / "out/labels/english.jsonl"
    intact = made.read_bytes()
    made.write_text(damage, encoding="utf-8")
    result = distill(text, "--only=label", "--resume")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].endswith(
        f"english.jsonl is damaged: delete it to translate {text} again with --resume"
    )
    made.unlink()
    assert distill(text, "--only=label", "--resume").exit_code == 0
    assert made.read_bytes() == intact


@pytest.mark.parametrize("opener", [gzip.open, lzma.open])
def test_compressed_text(text: Path, opener: Any) -> None:
    path = text.parent / f"english.txt.{'gz' if opener is gzip.open else 'xz'}"
    with opener(path, "wt", encoding="utf-8") as file:
        file.write(text.read_text(encoding="utf-8"))
    assert distill(text, "--only=label").exit_code == 0
    assert distill(path, "--only=label", output="compressed").exit_code == 0
    assert files(text.parent / "compressed") == files(text.parent / "out")


def test_best_of_takes_the_translation_nearest_to_the_human_one(text: Path) -> None:
    source = "I am very happy to see you again."
    with Translator() as translator:
        [best] = translator.translate([source], num_beams=4, num_return_sequences=4)
    third = best.alternatives[1].text
    assert third != best.text
    (text.parent / "human.tsv").write_text(f"{source}\t{third}\n", encoding="utf-8")
    result = distill(text.parent / "human.tsv", "--only=label", "--best-of=4", "--min-score=-9")
    assert result.exit_code == 0, result.output
    assert (text.parent / "out/labels/human.tsv").read_text(encoding="utf-8") == f"{source}\t{third}\n"


def test_human_pairs_are_learned_as_often_as_their_weight_says(text: Path) -> None:
    (text.parent / "human.tsv").write_text("Thank you.\tObrigado.\n", encoding="utf-8")
    result = distill(text, f"--pairs={text.parent / 'human.tsv'}@3")
    assert result.exit_code == 0, result.output
    assert "`human.tsv` (3 times)" in (text.parent / "out/README.md").read_text(encoding="utf-8")


def test_a_checkpoint_as_teacher_is_exported_first(text: Path, made: Any) -> None:
    result = distill(text, "--only=label", "--min-score=-99", "--max-length-ratio=99", teacher=made.checkpoint)
    assert load_bundle(text.parent / "out" / "teacher").manifest.precision == "fp32", result.output
    assert (text.parent / "out" / "labels" / "english.jsonl").exists()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--min-score=1"], "--min-score is 1.0, but must be below 0"),
        (["--text=missing.txt"], "missing.txt cannot be read: No such file or directory"),
        (["--text=other/english.txt"], "2 texts are called english: rename all but one, or join them"),
        (["--pairs=human.tsv@0"], "the weight of human.tsv is 0, but must be above 0 and at most 100"),
        (["--dev=missing.tsv"], "missing.tsv cannot be read: No such file or directory"),
        (["--width=15"], "width 15 is not divisible by 2 heads"),
    ],
)
def test_bad_input_is_one_sentence(text: Path, more: list[str], sentence: str) -> None:
    result = distill(text, *more)
    assert result.exit_code == 2
    assert sentence in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.output
    assert not (text.parent / "out" / "model.safetensors").exists()
