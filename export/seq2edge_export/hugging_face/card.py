"""The model card: what a README says about rights and languages in its head; needs nothing."""

import re
from pathlib import Path

CARD = "README.md"
HEAD = re.compile(r"\A---\s*\n(.*?\n)---\s*\n", re.DOTALL)


def read_license(folder: Path) -> str:
    """The licence that the head of the card names, or nothing."""
    path = folder / CARD
    head = HEAD.match(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else None
    found = re.search(r"^license:\s*[\"']?([\w.\-]+)", head[1], re.MULTILINE) if head else None
    return found[1] if found else ""


def attribution(settings: dict[str, object]) -> str:
    """The name under which the model was published, where it is known."""
    name = settings.get("_name_or_path")
    return name if isinstance(name, str) and re.fullmatch(r"[\w.\-]+/[\w.\-]+", name) else ""
