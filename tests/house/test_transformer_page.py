"""The page for learners names functions that exist, and its pictures are those that its script draws."""

import re
import runpy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from seq2edge import Translator
from seq2edge.explain.explanation import explain

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "transformer.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`(seq2edge\w*(?:\.\w+)+)`", PAGE)))
MOST_BYTES = 60_000


def found(name: str) -> Any:
    """Import the longest part of a dotted name that is a module, and look up the rest."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value: Any = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            value = getattr(value, part)
        return value
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_named_function_exists(name: str) -> None:
    assert callable(found(name))


def test_every_step_names_its_functions() -> None:
    steps = re.split(r"^## (?=\d)", PAGE, flags=re.MULTILINE)[1:]
    assert len(steps) == 14
    assert all("In code: `seq2edge" in step.split("\n## ")[0] for step in steps)


def test_the_script_draws_every_picture_of_the_page() -> None:
    script = runpy.run_path(str(DOCS / "transformer" / "render.py"))
    drawn = script["pictures"](explain(Translator(threads=1), script["SENTENCE"]))
    shown = set(re.findall(r"\(transformer/(\w+\.svg)\)", PAGE))
    assert shown == drawn.keys() == {path.name for path in (DOCS / "transformer").glob("*.svg")}
    for name, picture in drawn.items():
        assert len(picture.encode()) < MOST_BYTES
        kept = (DOCS / "transformer" / name).read_text(encoding="utf-8")
        assert texts(kept) == texts(picture), "the default model has changed: run  make pictures"


def texts(picture: str) -> list[str]:
    """Return the pieces in a picture; numbers may differ in their last digits on another CPU."""
    return [text for text in re.findall(r">([^<]+)</text>", picture) if not re.search(r"\d", text)]


def test_the_python_of_the_page_about_explain_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [code] = re.findall(r"```python\n(.*?)```", (DOCS / "explain.md").read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["encoder", "decoder", "cross"]
    assert (tmp_path / "report.html").exists()
