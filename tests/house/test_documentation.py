"""The documentation covers the whole public interface, with an example for everything, and its links exist."""

import inspect
import re
import sys
from pathlib import Path

import pytest
from loaded_module import load_module

import seq2edge
import seq2edge_export

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
API = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
INHERITED = (BaseException, tuple)


def public_names() -> list[str]:
    """Return every public class and function, and every public method and property of the classes."""
    names = ["seq2edge.corpus.worker", "seq2edge.Translator.__call__"]
    for module in (seq2edge, seq2edge_export):
        for name in set(module.__all__) - {"__version__"}:
            thing = getattr(module, name)
            names.append(f"{module.__name__}.{name}")
            if inspect.isclass(thing) and not issubclass(thing, INHERITED) and module is seq2edge:
                members = [key for key, value in vars(thing).items() if callable(value) or hasattr(value, "__get__")]
                names += [f"{module.__name__}.{name}.{member}" for member in members if not member.startswith("_")]
    return sorted(names)


@pytest.mark.parametrize("name", public_names())
def test_a_public_name_is_described_with_an_example(name: str) -> None:
    sections = dict(re.findall(r"^::: ([\w.]+)\n(.*?)(?=^:::|\Z)", API, re.MULTILINE | re.DOTALL))
    assert name in sections, "docs/reference/api.md lacks it"
    assert "```py" in sections[name], "its example is missing"
    assert load_module(DOCS / "hooks.py").describe(name).strip()


def test_every_variable_of_the_source_is_explained() -> None:
    page = (DOCS / "reference" / "environment.md").read_text(encoding="utf-8")
    sources = [
        path.read_text(encoding="utf-8")
        for part in ("runtime/seq2edge", "graphs", "export")
        for path in (ROOT / part).rglob("*.py")
    ]
    used = {name for text in sources for name in re.findall(r"SEQ2EDGE_[A-Z_]*[A-Z]", text)}
    assert {name for name in used if not name.startswith("SEQ2EDGE_SERVE")} <= set(
        re.findall(r"SEQ2EDGE_[A-Z_]+", page)
    )


def test_the_generated_parts_know_all_commands_options_and_variables() -> None:
    from seq2edge.cli.main import COMMANDS

    hooks = load_module(DOCS / "hooks.py")
    assert {f"## {name}" for name in COMMANDS} <= set(hooks.command_line().splitlines())
    assert "`no_repeat_ngram_size`" in hooks.options()
    assert "`SEQ2EDGE_SERVE_MAX_WAITING`" in hooks.serve_variables()


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_the_links_of_a_page_lead_to_files(page: Path) -> None:
    made = {DOCS / "contributing.md", DOCS / "changelog.md"}
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target.split("#")[0] for target in re.findall(r"]\((?!https?:|#)([^)\s]+)\)", text)]
    missing = [one for one in targets if not (page.parent / one).exists() and (page.parent / one).resolve() not in made]
    assert missing == []


def test_every_extra_that_the_documentation_installs_exists() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    texts = [path.read_text(encoding="utf-8") for path in (*DOCS.rglob("*.md"), ROOT / "README.md")]
    named = {
        extra
        for text in texts
        for group in re.findall(r"(?:seq2edge|\.)\[([a-z,-]+)\]'", text)
        for extra in group.split(",")
    }
    assert "export" in named
    assert named <= extras.keys()


def test_the_decisions_are_short_records() -> None:
    records = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    assert len(records) >= 10
    for record in records:
        text = record.read_text(encoding="utf-8")
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequences"))
        assert len(text.split()) <= 200


@pytest.mark.skipif(sys.platform == "win32", reason="make is not part of Windows")
def test_every_target_of_the_makefile_has_a_line_in_its_help() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    tools = {"vulkan", "qemu", "chromium"}  # what some targets need from the system
    assert set(re.findall(r"^([a-z-]+):", text, re.MULTILINE)) - tools == set(
        re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE)
    )
