"""What mkdocs generates: the command line, the API, options and variables, and pages from files outside of docs."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/seq2edge/seq2edge/blob/main"
COPIED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
GENERATED = re.compile(r"<!-- generated: ([a-z-]+) -->")
DIRECTIVE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
OUTSIDE = re.compile(r"]\(((?:\.\./)+)([\w./-]+)(#[\w-]+)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are in the root of the repository."""
    from mkdocs.structure.files import File

    for source, target in COPIED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        inside = re.sub(r"]\(docs/", "](", text)
        files.append(File.generated(config, target, content=re.sub(r"]\(tests/", "](../tests/", inside)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    markdown = GENERATED.sub(lambda found: BLOCKS[found[1]](), markdown)
    markdown = DIRECTIVE.sub(lambda found: describe(found[1]), markdown)
    return OUTSIDE.sub(lambda found: _outside(found, page.file.src_uri), markdown)


def _outside(found: re.Match[str], page: str) -> str:
    """Point a link that leaves docs to the repository, or to the page that was made of the file."""
    ups, path, anchor = found[1].count("../"), found[2], found[3] or ""
    depth = page.count("/")
    if ups <= depth:
        return found[0]
    if not (ROOT / path).exists():
        raise ValueError(f"{page} links to {path}, which does not exist")
    if path in COPIED:
        return f"]({'../' * depth}{COPIED[path]}{anchor})"
    return f"]({REPOSITORY}/{path}{anchor})"


def command_line() -> str:
    """Return a section for every command, with its help."""
    import click

    from seq2edge.cli.main import COMMANDS, main

    parts = []
    context = click.Context(main, info_name="seq2edge", terminal_width=100, max_content_width=100)
    for name, entry in COMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context, terminal_width=100, max_content_width=100)
        parts.append(f"## {name}\n\n{entry.summary}\n\n```text\n{command.get_help(inner)}\n```\n")
    return "\n".join(parts)


def options() -> str:
    """Return the tables of the options of a call."""
    from seq2edge import GenerationOptions, TextOptions

    return "\n".join(f"**`{cls.__name__}`**\n\n{_table(cls)}" for cls in (GenerationOptions, TextOptions))


def serve_variables() -> str:
    from seq2edge.serve.settings import ServeSettings

    return _table(ServeSettings, lambda name: f"SEQ2EDGE_SERVE_{name.upper()}")


def _table(cls: Any, shown: Callable[[str], str] = str) -> str:
    rows = [f"| `{shown(one.name)}` | {_default(one)} | {one.metadata.get('help', '')} |" for one in fields(cls)]
    return "\n".join(["| | default | |", "|---|---|---|", *rows, ""])


def _default(field: Any) -> str:
    return "" if field.default in (None, "") or "MISSING" in repr(field.default) else f"`{field.default}`"


def describe(name: str) -> str:
    """Return the signature and the docstring of a public object."""
    thing = find(name)
    text = inspect.getdoc(thing) or ""
    head = f"```text\n{_signature(name, thing)}\n```\n\n" if _has_signature(thing) else ""
    body = re.sub(r"``([^`]+)``", r"`\1`", text)
    return f"{head}{body}\n\n{_fields(thing)}"


def _has_signature(thing: Any) -> bool:
    return callable(thing) and not (inspect.isclass(thing) and issubclass(thing, Exception))


def find(name: str) -> Any:
    """Import an object by its public name, such as ``seq2edge.Translator.translate``."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            thing = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            thing = inspect.getattr_static(thing, part) if inspect.isclass(thing) else getattr(thing, part)
        return thing
    raise ValueError(f"there is no {name}")


def _signature(name: str, thing: Any) -> str:
    parameters = [one for one in inspect.signature(thing).parameters.values() if one.name != "self"]
    shown, named = [], False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not named:
            shown.append("*")
            named = True
        shown.append(re.sub(r"(?:\w+\.)+(\w+)", r"\1", str(one)))
    lines = "".join(f"\n    {one}," for one in shown)
    return f"{name}({lines}\n)" if len(", ".join(shown)) > 70 else f"{name}({', '.join(shown)})"


def _fields(thing: Any) -> str:
    """Return the fields of a result; their meaning stands in comments at the line ends."""
    if not (inspect.isclass(thing) and is_dataclass(thing)) or any(one.metadata for one in fields(thing)):
        return ""
    found = re.findall(r"^    (\w+): .*?(?:  # (.*))?$", inspect.getsource(thing).split("    def ")[0], re.MULTILINE)
    rows = [f"| `{name}` | {meaning} |" for name, meaning in found]
    return "\n".join(["| field | |", "|---|---|", *rows, ""])


BLOCKS: Mapping[str, Callable[[], str]] = {
    "command-line": command_line,
    "options": options,
    "serve-variables": serve_variables,
}
