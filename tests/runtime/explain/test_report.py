"""The page is one file: nothing of a text or a model can become markup, and nothing is loaded from elsewhere."""

import json
import re
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from seq2edge import Translator
from seq2edge.cli.main import main
from seq2edge.explain.explanation import Explanation, explain
from seq2edge.explain.report import render

VECTORS = Path(__file__).parents[2] / "vectors"
TEXT = "The old man sees a red house."
LONG = "She said that the old man who lives near the river would like to buy a ticket to the town before the winter."
MOST_BYTES = 2_000_000


@pytest.fixture(scope="module")
def explained() -> Explanation:
    return explain(Translator(threads=1), TEXT)


def data_of(page: str) -> dict:
    [data] = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    return json.loads(data)


def test_the_page_holds_the_arrays_to_the_last_bit(explained: Explanation) -> None:
    [run] = data_of(render([explained]))["runs"]
    for maps in explained.replay.attention:
        for name in ("weights", "scores"):
            stored = run["attention"][maps.kind][name]
            found = np.frombuffer(b64decode(stored["data"]), "<f4").reshape(stored["shape"])
            np.testing.assert_array_equal(found, getattr(maps, name))
    assert run["translation"]["text"] == explained.translation.text
    assert run["tree"]["hypotheses"][0]["score"] == explained.translation.score


def test_the_page_loads_nothing_from_elsewhere(explained: Explanation) -> None:
    page = render([explained, explained])
    assert "default-src 'none'" in page
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a format
    assert not re.search(r"<(link|img|iframe|object|embed)\b|\ssrc=|@import|url\(", page)


def test_text_cannot_become_markup(explained: Explanation) -> None:
    hostile = "</script><script>alert(1)</script><!-- $data \u2028"
    page = render([replace(explained, text=hostile, name=hostile)])
    assert page.count("<script") == 2
    assert data_of(page)["runs"][0]["text"] == hostile


def test_the_page_of_a_long_sentence_is_small() -> None:
    page = render([explain(Translator(threads=1), LONG)])
    assert len(page.encode()) < MOST_BYTES


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["explain", *map(str, arguments)])
    return done.exit_code, done.output


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    code, output = run(TEXT, "-o", tmp_path / "report.html")
    assert code == 0
    assert output.startswith(f"en-pt: {Translator(threads=1)(TEXT)}\n{tmp_path / 'report.html'}: ")
    assert len(data_of((tmp_path / "report.html").read_text(encoding="utf-8"))["runs"]) == 1


def test_the_command_puts_two_bundles_beside_each_other(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    code, _ = run(
        TEXT, "-o", page, "-m", VECTORS / "append", "--beside", VECTORS / "int8", "--num-beams", 2, "--split", "none"
    )
    assert code == 0
    data = data_of(page.read_text(encoding="utf-8"))
    assert [one["model"]["precision"] for one in data["runs"]] == ["fp32", "int8"]
    assert [one["search"]["num_beams"] for one in data["runs"]] == [2, 2]
    assert data["difference"]["same_source"]


def test_an_existing_page_is_replaced_only_with_force(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("mine")
    code, output = run(TEXT, "-o", page)
    assert code == 2
    assert output.count("\n") == 1
    assert page.read_text() == "mine"
    assert run(TEXT, "-o", page, "--force")[0] == 0


def test_errors_are_one_sentence(tmp_path: Path) -> None:
    assert run("One. Two.", "-o", tmp_path / "a.html") == (
        2,
        "Error: the text has 2 sentences, but a page explains one: give one of them, or --split none to treat them as "
        "one\n",
    )
    code, output = run(TEXT, "-o", tmp_path / "a.html", "-m", tmp_path / "none")
    assert (code, output.count("\n")) == (2, 1)
    code, output = run(TEXT, "-o", tmp_path / "none" / "a.html")
    assert (code, output.count("\n")) == (2, 1)
    assert not list(tmp_path.iterdir())
