"""Tokenizer files that a bundle needs and the folder has in another form; needs nothing."""

import atexit
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any


def made_file(name: str, content: Any) -> Path:
    """A JSON file that lasts as long as the program."""
    folder = Path(tempfile.mkdtemp(prefix="seq2edge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / name
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path
