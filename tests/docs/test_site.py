"""The built documentation: no warning, and nothing that comes from another host."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]+src=\"(https?:[^\"]+)|<link[^>]+href=\"(https?:[^\"]+)\"[^>]*>")


def test_the_site_builds_without_a_warning_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = re.sub(r"<link[^>]+rel=\"canonical\"[^>]*>", "", page.read_text(encoding="utf-8"))
        assert LOADED.findall(text) == [], page
    for sheet in tmp_path.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?https?:", sheet.read_text(encoding="utf-8")), sheet
