"""What changed between two runs, and what is only noise."""

from dataclasses import replace

import pytest
from bench_reports import MACHINE, OURS, report

from seq2edge.bench.report import compare, describe_changes, differing_machines, regressions
from seq2edge.errors import DataError


def changed(before: object, after: object) -> list[str]:
    found = compare(report(before), report(after))  # type: ignore[arg-type]
    return [change.what for change in found if change.beyond_noise]


def test_a_run_does_not_differ_from_itself() -> None:
    assert changed(OURS, OURS) == []
    assert describe_changes(report(OURS), report(OURS)) == "0 of 7 figures changed beyond noise"


def test_less_than_the_noise_is_no_change() -> None:
    noisy = replace(OURS, rounds=(0.10, 0.12, 0.13))  # its median is 20 % above its best
    assert changed(noisy, replace(noisy, rounds=(0.115, 0.13, 0.14))) == []


def test_more_than_the_noise_is_a_change_either_way() -> None:
    slower = replace(OURS, rounds=(0.12, 0.121, 0.122))
    assert changed(OURS, slower) == ["ms/sentence"]
    assert changed(slower, OURS) == ["ms/sentence"]


def test_a_change_is_told_with_its_share_and_the_noise() -> None:
    text = describe_changes(report(OURS), report(replace(OURS, rounds=(0.05, 0.05, 0.05))))
    assert "int8, cpu, 1 thread, batch 2, beam 4: ms/sentence 25 -> 12.5 (-50.0%, noise 4.0%)" in text.splitlines()


def test_size_tokens_and_bleu_have_no_noise() -> None:
    assert changed(OURS, replace(OURS, size=8_000_001, target_tokens=49, bleu=43.48)) == [
        "MB on disk",
        "target tokens",
        "BLEU",
    ]


def test_memory_may_move_a_little() -> None:
    assert changed(OURS, replace(OURS, peak_bytes=92_000_000)) == []
    assert changed(OURS, replace(OURS, peak_bytes=99_000_000)) == ["peak MB"]


def test_what_was_not_measured_is_not_compared() -> None:
    assert changed(replace(OURS, peak_bytes=None, bleu=None), OURS) == []


def test_runs_on_other_sentences_cannot_be_compared() -> None:
    with pytest.raises(DataError, match="no system in common"):
        compare(report(OURS), report(replace(OURS, work="another")))


def test_another_machine_or_version_is_told() -> None:
    other = replace(MACHINE, cpu="another CPU", versions={"seq2edge": "0.1.0", "onnxruntime": "1.32.0"})
    assert differing_machines(report(OURS), replace(report(OURS), machine=other)) == [
        "CPU: a CPU before, another CPU after",
        "onnxruntime: 1.31.1 before, 1.32.0 after",
    ]


def test_a_regression_is_slower_larger_or_loses_bleu() -> None:
    worse = replace(OURS, rounds=(0.12, 0.121, 0.122), size=8_000_001, target_tokens=49, bleu=43.48)
    found = regressions(report(OURS), report(worse))
    assert found is not None
    assert [change.what for change in found] == ["ms/sentence", "MB on disk", "BLEU"]
    assert regressions(report(worse), report(OURS)) == []


def test_another_cpu_is_not_judged() -> None:
    slower = report(replace(OURS, rounds=(0.2, 0.2, 0.2)))
    for other in (replace(MACHINE, cpu="another CPU"), replace(MACHINE, flags=("avx2", "avx512_vnni"))):
        assert regressions(replace(report(OURS), machine=other), slower) is None
