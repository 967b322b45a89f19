"""onnxruntime's telemetry is off: nothing is written to the home directory, unless the user asks for it."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = "from seq2edge import Translator; Translator(threads=1).translate(['Hello.'])"


def files_written(home: Path, **environment: str) -> list[Path]:
    inherited = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    variables = {**inherited, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), **environment}
    subprocess.run([sys.executable, "-B", "-c", PROGRAM], env=variables, check=True)
    return [path for path in home.rglob("*") if path.is_file()]


def test_a_translation_leaves_nothing_in_the_home_directory(tmp_path: Path) -> None:
    assert files_written(tmp_path) == []


def test_the_users_own_setting_is_kept(tmp_path: Path) -> None:
    code = "import os, seq2edge; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
