"""Run the code blocks of a page as a reader would, from top to bottom in one folder.

``sh`` blocks are run by bash, ``pycon`` blocks are compared with what Python prints, a block with a file name as its
title is written to that file, and one with the title "first terminal" keeps running until the end of the page.
Installation is left to the tests of the package.
"""

import doctest
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)
INSTALLATION = re.compile(r"^(pip install|python3 -m venv|\. venv/)")
TERMINAL = "first terminal"
PATIENCE = 60.0  # seconds until a server must answer


@dataclass(frozen=True)
class Block:
    language: str
    title: str
    code: str


def blocks_of(page: Path) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall(page.read_text(encoding="utf-8"))]


class Reader:
    """A folder, a shell and a Python in which the blocks of one page are run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.names, self.servers = folder, dict[str, Any](), list[subprocess.Popen[bytes]]()
        tools = folder / ".tools"
        tools.mkdir()
        for name, command in {"seq2edge": f"{sys.executable} -m seq2edge", "python": sys.executable}.items():
            (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
            (tools / name).chmod(0o755)
        self.environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}

    def run(self, block: Block) -> None:
        if block.title == TERMINAL:
            self._start(block.code)
        elif block.title:
            (self.folder / block.title).write_text(block.code, encoding="utf-8")
        elif block.language == "sh":
            self._shell(block.code)
        elif block.language == "pycon":
            self._python(block.code)

    def close(self) -> None:
        for server in self.servers:
            server.terminate()
            server.wait(60)

    def _shell(self, code: str) -> None:
        commands = [line for line in code.splitlines() if not INSTALLATION.match(line)]
        for index, line in enumerate(commands):
            if line.startswith("seq2edge serve"):
                self._start(line.split("#")[0])
                commands[index] = ""
        script = "set -euo pipefail\n" + "\n".join(commands)
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"

    def _python(self, code: str) -> None:
        test = doctest.DocTestParser().get_doctest(code, self.names, "page", None, 0)
        report: list[str] = []
        with working_folder(self.folder):
            doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append, clear_globs=False)
        self.names = test.globs
        assert not report, "".join(report)

    def _start(self, command: str) -> None:
        log = self.folder / f".server-{len(self.servers)}.log"
        with log.open("wb") as output:
            environment = self.environment | {"PYTHONUNBUFFERED": "1"}
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command.strip()}"],
                cwd=self.folder,
                env=environment,
                stdout=output,
                stderr=output,
            )
        self.servers.append(process)
        end = time.monotonic() + PATIENCE
        while not re.search(rb"listening on|Serving HTTP", log.read_bytes()):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)


@contextmanager
def working_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
