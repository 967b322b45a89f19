"""A real ``seq2edge serve`` in a process of its own, and a small client."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class RunningServer:
    """The process, its address and its log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log = process, log
        while not (found := re.search(r"listening on (http://127.0.0.1:(\d+))", self.log)):
            assert process.poll() is None, self.log
            time.sleep(0.05)
        self.url, self.port = found[1], int(found[2])

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def ask(self, path: str, content: Any = None, *, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Return the status and the JSON of an answer; bytes are sent as they are, other content as JSON."""
        status, _, body = self.answer(path, content, headers=headers)
        return status, json.loads(body)

    def answer(
        self, path: str, content: Any = None, *, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        kind = {} if isinstance(content, bytes) else {"Content-Type": "application/json"}
        data = content if content is None or isinstance(content, bytes) else json.dumps(content).encode()
        request = urllib.request.Request(self.url + path, data, {**kind, **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, dict(response.headers), response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read()

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels."""
        text = self.answer("/metrics")[2].decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


@contextmanager
def running_server(folder: Path, *options: str, **environment: str) -> Iterator[RunningServer]:
    """Start a server on a free port, and end it as a service manager does."""
    folder.mkdir(exist_ok=True)
    log = folder / f"log-{time.monotonic_ns()}.txt"
    command = [sys.executable, "-m", "seq2edge", "serve", "--port", "0", "--threads", "1", *options]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, stdout=output, env={**os.environ, **environment})
    try:
        yield RunningServer(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def wait_until(done: Callable[[], object]) -> None:
    last = time.monotonic() + 60
    while not done():
        assert time.monotonic() < last
        time.sleep(0.02)


def replace_bundle(folder: Path, **generation: object) -> None:
    """Replace a bundle on disk by one with other options, as a deployment does."""
    number = len([*folder.parent.iterdir()])
    other = folder.with_name(f"new-{number}")
    shutil.copytree(folder, other)
    manifest = json.loads((other / "manifest.json").read_text(encoding="utf-8"))
    manifest["generation"] |= generation
    (other / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    folder.rename(folder.with_name(f"old-{number}"))
    other.rename(folder)
