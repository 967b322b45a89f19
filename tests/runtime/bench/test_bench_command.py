"""``seq2edge bench`` end to end on the default model, and its errors; nothing depends on how long anything takes."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seq2edge.bench.report import read_report, write_report
from seq2edge.bundle.bundle import DEFAULT_BUNDLE


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "seq2edge", "bench", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, check=False, encoding="utf-8")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "texts.en"
    path.write_text("Good morning.\nWhere is the nearest train station?\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def done(texts: Path) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Two sentences, two rounds, two bundles that are the same, greedy and beam 2."""
    file = texts.with_name("report.json")
    two = ["-m", DEFAULT_BUNDLE, "-m", DEFAULT_BUNDLE.parent / ".." / "models" / DEFAULT_BUNDLE.name]
    return bench(*two, "-i", texts, "--rounds", 2, "--num-beams", 1, "--num-beams", 2, "--json", file), file


def test_a_run_prints_tables_and_nothing_else(done: Any) -> None:
    found, _ = done
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.count("ms/sentence") == 2
    assert "cpu, 1 thread, batch 1, beam 2: 2 sentences" in found.stdout


def test_the_json_file_has_every_figure(done: Any) -> None:
    report = read_report(done[1])
    assert len(report.measurements) == 4
    for one in report.measurements:
        assert len(one.rounds) == 2
        assert one.target_tokens > 4
        assert one.load_seconds is not None
        assert sys.platform != "linux" or (one.peak_bytes or 0) > one.size
        assert one.latency.best <= one.latency.p50 <= one.latency.p95 <= one.latency.p99


def test_the_second_bundle_is_compared_with_the_first(done: Any) -> None:
    first, second = read_report(done[1]).measurements[:2]
    assert first.beside == {}
    [comparison] = second.beside.values()
    assert (comparison.system, comparison.equal) == (first.system, 2)
    assert comparison.ratio.lowest <= comparison.ratio.highest


def test_a_file_compared_with_itself_has_not_changed(done: Any) -> None:
    found = bench("--compare", done[1], done[1])
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == "0 of 24 figures changed beyond noise\n"


def test_the_guard_fails_if_something_became_worse_and_judges_only_the_same_cpu(done: Any, tmp_path: Path) -> None:
    slow, elsewhere = tmp_path / "slow.json", tmp_path / "elsewhere.json"
    report = read_report(done[1])
    slower = [replace(one, rounds=tuple(9 * seconds for seconds in one.rounds)) for one in report.measurements]
    write_report(replace(report, measurements=tuple(slower)), slow)
    write_report(replace(report, machine=replace(report.machine, cpu="another")), elsewhere)
    assert bench("--compare", slow, done[1], "--guard").returncode == 0
    assert bench("--compare", elsewhere, slow, "--guard").stdout.endswith("the CPUs differ, so nothing is judged\n")
    failed = bench("--compare", done[1], slow, "--guard")
    assert (failed.returncode, failed.stderr) == (1, "")
    assert failed.stdout.endswith("4 of them became worse\n")


def test_forced_lengths_references_and_a_picture(texts: Path, tmp_path: Path) -> None:
    pytest.importorskip("sacrebleu")
    pytest.importorskip("matplotlib")
    (tmp_path / "texts.pt").write_text("Bom dia.\nOnde fica a estação de trem mais próxima?\n", encoding="utf-8")
    options = ["--new-tokens", 5, "--no-memory", "--rounds", 1, "--json", tmp_path / "r.json"]
    found = bench("-i", texts, "-r", tmp_path / "texts.pt", *options, "--plot", tmp_path / "p.svg")
    assert (found.returncode, found.stderr) == (0, "")
    [one] = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["measurements"]
    assert (one["target_tokens"], one["peak_bytes"]) == (10, None)
    assert one["bleu"] > 10
    assert (tmp_path / "p.svg").stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--against", "fasttext"], "there is no peer 'fasttext'; known peers: ctranslate2, optimum, torch"),
        (["--against", "torch"], "torch needs the checkpoint that the bundle was made from: name it with --checkpoint"),
        (["-m", "nowhere"], "nowhere is not a bundle"),
        (["-i", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["-r", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["--json", "nowhere/x.json"], "nowhere/x.json cannot be written"),
        (["--plot", "x.jpeg"], "no suffix of a picture"),
        (["--new-tokens", "1000"], "--new-tokens is 1000, but the model generates at most 512 tokens"),
        (["--device", "tpu"], "there is no device 'tpu'"),
        (["--device", "cuda", "--against", "torch", "--checkpoint", "x"], "peers are measured on the CPU"),
        (["--compare", "a.json", "b.json"], "a.json cannot be read"),
        (["--guard"], "--guard judges what --compare finds: give both"),
    ],
)
def test_errors_are_one_sentence(arguments: list[str], message: str) -> None:
    found = bench(*arguments, "--no-memory")
    assert found.returncode == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr
    assert found.stdout == ""


def test_lines_without_an_input_are_an_error() -> None:
    failed = bench("--lines", 3)
    assert (failed.returncode, failed.stderr.count("\n")) == (2, 1)
    assert "--lines limits the lines of a file: name one with --input" in failed.stderr
