"""docs/bundle.md explains every field of a manifest."""

import json
import re
from pathlib import Path

from seq2edge.bundle.bundle import DEFAULT_BUNDLE

PAGE = (Path(__file__).parents[3] / "docs" / "bundle.md").read_text(encoding="utf-8")
FREE = {"tools", "files"}  # their keys are names of tools and files


def test_every_field_is_explained() -> None:
    explained = set(re.findall(r"`([a-z0-9_]+)`", PAGE))
    manifest = json.loads((DEFAULT_BUNDLE / "manifest.json").read_text(encoding="utf-8"))
    inner = [value for key, value in manifest.items() if isinstance(value, dict) and key not in FREE]
    fields = {*manifest, *(key for value in inner for key in value)}
    assert fields <= explained
