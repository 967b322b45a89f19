"""Test the tables that are rendered from benchmarks/results."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from bench_reports import side_by_side

from goals import goal_rows
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


@pytest.mark.parametrize("name", BLOCKS)
def test_what_was_not_measured_is_said_so(tmp_path: Path, name: str) -> None:
    assert rendered(page_of(name), tmp_path) == page_of(name).replace("old\n", NOT_YET)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A row of every kind."""
    rows = rows_of(side_by_side(), "base")
    files = {
        "versus_peers": rows,
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
        (
            "versus-base",
            "| beam 4 | 2 | **seq2edge int8** | 25.0 | 51.0 | 58.0 | 59.6 | 10.0 | 480 | 43.49 | 1.30x (1.25",
        ),
        ("speed", "| base model | int8 | 1.30x |"),
        ("growth", "| base | 10 | 100.0 | 130.0 | 1.30x (1.25 to 2.00) |"),
        ("memory", "| base model | **seq2edge int8** | 90 |"),
        ("steps", "| base model | int8 | 1 | beam 4 | 3.000 | 1.000 | 25% |"),
        ("cold-start", "| seq2edge translate | 0.200 | 0.600 | 0.700 | 0.100 |  |"),
        ("limits", "| step | int8 | 40.0 MB | 2.00 | 4.00 | 50% |"),
        ("machine", "a CPU (avx2), 2 of 4 cores, Linux, Python 3.11.7; onnxruntime 1.31.1"),
        ("fused-operators", "| cross-attention | plain | 10 | 163 |"),
        ("goals", "| cold start | at most 0.25 s | 0.20 s | yes |"),
    ],
)
def test_a_table_shows_the_figures_of_its_file(results: Path, name: str, line: str) -> None:
    assert line in rendered(page_of(name), results)


def test_a_goal_is_met_by_its_worst_row(results: Path) -> None:
    rows = rows_of(side_by_side(), "default")
    for row in rows:
        row["setting"] = {**row["setting"], "batch_size": 32}
    (results / "versus_peers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    goals = {goal: mark for goal, _, _, mark in goal_rows(results)}
    assert goals["default, int8, beam 4, batch 32, tokens/s, vs ctranslate2"] == "no"  # 1.30 of 1.6
    assert asdict(side_by_side())["measurements"][0]["beside"]["ctranslate2"]["ratio"]["best"] == pytest.approx(1.3)
