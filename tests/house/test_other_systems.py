"""The runtime works without what only POSIX systems have: locks, forks, resource limits, signal handlers of loops."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from running_server import RunningServer

ROOT = Path(__file__).parents[2]
SELECTION = [
    "bundle/test_atomic_files.py",
    "bundle/test_kept_bundles.py",
    "config",
    "files/test_file_translation.py",
    "files/test_lines.py",
    "test_options.py",
    "test_streaming.py",
]
# Left out of all tests: search is numpy alone, and the others start processes or test the locks of POSIX.
IGNORED = ["search", "bench", "cli", "files/test_resumable.py"]
UNMARKED = "not slow and not peers and not backends and not trust and not serve"
COMMAND = "import sys, without_posix; from seq2edge.cli.main import main; main(sys.argv[1:], prog_name='seq2edge')"
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "support"), *filter(None, [os.environ.get("PYTHONPATH")])])
}


def test_a_selection_of_the_tests_passes_without_posix() -> None:
    tests = [str(ROOT / "tests" / "runtime" / name) for name in SELECTION]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "without_posix", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_tests_of_the_runtime_pass_without_posix() -> None:
    ignored = [f"--ignore=tests/runtime/{name}" for name in IGNORED]
    options = ["-q", "-p", "without_posix", "-p", "no:cacheprovider", "-m", UNMARKED]
    command = [sys.executable, "-m", "pytest", *options, *ignored, "tests/runtime"]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_module_of_the_runtime_imports_without_posix() -> None:
    code = """
import without_posix, importlib, pkgutil, seq2edge
for module in pkgutil.walk_packages(seq2edge.__path__, "seq2edge."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_file_is_translated_without_posix(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("Good morning.\n", encoding="utf-8")
    command = [sys.executable, "-c", COMMAND, "translate", "-i", "in", "-o", "out", "--resume"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text(encoding="utf-8") == "Bom dia.\n"


def test_the_server_answers_and_ends_without_posix(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        command = [sys.executable, "-c", COMMAND, "serve", "--port", "0", "--threads", "1"]
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=output, stderr=output)
    try:
        server = RunningServer(process, log)
        assert server.ask("/translate", {"q": "Good morning.", "source": "en", "target": "pt"})[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, server.log
    finally:
        process.kill()
        process.wait()
