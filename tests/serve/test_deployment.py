"""The steps of docs/Dockerfile in a fresh folder, with the light wheel and not as root."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_server import RunningServer

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "docs" / "Dockerfile").read_text(encoding="utf-8")
SYSTEM_PYTHON = "/usr/bin/python3"  # which others than root may run


def steps(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everyone may read."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_the_steps_of_the_dockerfile_give_a_healthy_server(folder: Path) -> None:
    python = SYSTEM_PYTHON if Path(SYSTEM_PYTHON).exists() else sys.executable
    subprocess.run([python, "-m", "venv", str(folder / "usr")], check=True)
    wheel = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(wheel, cwd=ROOT, check=True, capture_output=True)
    [pattern] = [step.split()[0] for step in steps("COPY")]
    (folder / "tmp").mkdir()
    for path in folder.glob(pattern):
        shutil.copy(path, folder / "tmp")
    environment = {"PATH": f"{folder}/usr/bin:/usr/bin:/bin", "HOME": str(folder / "tmp")}
    for step in steps("RUN"):
        subprocess.run(step.replace("/tmp/", f"{folder}/tmp/"), shell=True, check=True, env=environment)
    environment |= dict(pair.split("=") for step in steps("ENV") for pair in step.split())
    environment |= {"SEQ2EDGE_SERVE_HOST": "127.0.0.1", "SEQ2EDGE_SERVE_PORT": "0"}
    user, group = map(int, steps("USER")[0].split(":"))
    assert user != 0
    identity = {"user": user, "group": group} if os.geteuid() == 0 and python == SYSTEM_PYTHON else {}
    log = folder / "log"
    with log.open("wb") as output:
        command = [str(folder / "usr" / "bin" / part) if part == "seq2edge" else part for part in entrypoint()]
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, cwd="/", **identity)
    try:
        server = RunningServer(process, log)
        environment["SEQ2EDGE_SERVE_PORT"] = str(server.port)
        check = steps("HEALTHCHECK")[0].removeprefix("CMD ")
        assert subprocess.run(check, shell=True, env=environment).returncode == 0
        assert server.ask("/translate", {"q": "Good morning.", "source": "en", "target": "pt"})[0] == 200
        assert b"<title>seq2edge" in urllib.request.urlopen(server.url).read()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert subprocess.run(check, shell=True, env=environment, stderr=subprocess.DEVNULL).returncode != 0


def entrypoint() -> list[str]:
    found: list[str] = json.loads(steps("ENTRYPOINT")[0])
    return found


def test_every_option_of_the_documentation_exists() -> None:
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    command = [sys.executable, "-m", "seq2edge", "serve", "--help"]
    options = set(re.findall(r"--[a-z-]+", subprocess.run(command, capture_output=True, text=True).stdout))
    assert set(re.findall(r"`(--[a-z-]+)`", page)) <= options
