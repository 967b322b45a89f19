"""A report as a table, as JSON and as a picture."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_reports import OURS, report, side_by_side

from seq2edge.bench.render import aligned, describe, draw_report
from seq2edge.bench.report import read_report, write_report
from seq2edge.errors import DataError, UsageError


def test_columns_are_aligned_the_first_to_the_left() -> None:
    assert aligned([["a", "bb"], ["ccc", "d"]]) == "a    bb\nccc   d"


def test_the_table_shows_every_figure_of_every_system() -> None:
    lines = describe(side_by_side()).splitlines()
    assert lines[0] == "a CPU, 2 of 4 cores, avx2"
    assert "cpu, 1 thread, batch 2, beam 4: 4 sentences of 10.0 tokens, 3 rounds" in lines
    head = next(line for line in lines if "ms/sentence" in line)
    assert head.split("  ")[0] == "system"
    ours = next(line for line in lines if line.startswith("int8") and "3/4" in line)
    assert ours.split() == (
        ["int8", "25.00", "51.0", "58.0", "59.6", "10.0", "480", "90", "43.49", "1.30x", "(1.25", "to", "2.00)", "3/4"]
    )


def test_columns_that_nobody_has_are_left_out() -> None:
    text = describe(report(replace(OURS, bleu=None)))
    assert "BLEU" not in text
    assert "equal" not in text


def test_json_gives_the_report_back(tmp_path: Path) -> None:
    write_report(side_by_side(), tmp_path / "report.json")
    assert read_report(tmp_path / "report.json") == side_by_side()
    content = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert content["machine"]["flags"] == ["avx2"]
    assert content["measurements"][0]["beside"]["ctranslate2"]["equal"] == 3


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format_version": 2}', "not JSON"])
def test_what_is_no_report_is_refused_in_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.json").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="is not a report of  seq2edge bench --json"):
        read_report(tmp_path / "bad.json")


def test_a_report_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.json cannot be read"):
        read_report(tmp_path / "none.json")


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_picture_is_drawn(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    draw_report(side_by_side(), tmp_path / f"picture{suffix}")
    assert (tmp_path / f"picture{suffix}").stat().st_size > 5000


def test_a_picture_of_no_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no suffix of a picture"):
        draw_report(side_by_side(), tmp_path / "picture.txt")
