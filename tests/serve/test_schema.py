"""The server does what its OpenAPI description says, whatever is sent: checked with schemathesis."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from running_server import RunningServer

from seq2edge.config.generation import GenerationOptions
from seq2edge.config.text import TextOptions

# Options contradict each other in ways that a schema does not express, so a request that fits it may be refused.
SKIPPED = "positive_data_acceptance"


def test_schemathesis_finds_nothing(server: RunningServer, tmp_path: Path) -> None:
    program = shutil.which("schemathesis", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("schemathesis is not installed")
    command = [program, "run", f"{server.url}/openapi.json", "--exclude-checks", SKIPPED, "--max-examples", "30"]
    command += ["--seed", "1", "--phases", "coverage,fuzzing", "--request-timeout", "60", "--no-color"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-6000:]
    assert server.ask("/health") == (200, {"status": "ok"})
    assert "unexpected" not in server.log


def test_every_option_is_described(server: RunningServer) -> None:
    paths = server.ask("/openapi.json")[1]["paths"]
    described = paths["/v1/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    for cls in (GenerationOptions, TextOptions):
        for name, entry in cls.__dataclass_fields__.items():
            assert described[name]["description"] == entry.metadata["help"]
