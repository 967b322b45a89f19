"""Run the browser's runtime from Python: in node, and in chromium on a site that is served from here."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

from seq2edge.web.server import SiteHandler, SiteServer

JAVASCRIPT = Path(__file__).parents[2] / "runtime" / "web"


def call_node(name: str, **arguments: Any) -> Any:
    """Call a function of test/driver.mjs."""
    [answer] = _run("driver.mjs", [{"call": name, **arguments}])
    assert "error" not in answer, answer["error"]
    return answer["value"]


def visit(folder: Path, *, handler: type[SimpleHTTPRequestHandler] = SiteHandler, **wishes: Any) -> dict[str, Any]:
    """Open a site in chromium and return what was seen, see test/browser.mjs."""
    with served(folder, handler) as address:
        seen: dict[str, Any] = _run("browser.mjs", {"address": address, **wishes})
    return seen


@contextmanager
def served(folder: Path, handler: type[SimpleHTTPRequestHandler] = SiteHandler) -> Iterator[str]:
    """Serve a folder meanwhile, and yield its address."""
    server = SiteServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _run(script: str, request: object) -> Any:
    command = ["node", str(JAVASCRIPT / "test" / script)]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
