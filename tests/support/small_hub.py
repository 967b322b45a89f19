"""Serve one model like the Hugging Face Hub, for tests of downloads."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "1" * 40


@contextmanager
def small_hub(name: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve the files of a folder under the name of a model; yield the address and the list of fetched files."""
    fetched: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing."""

        def _answer(self, *, body: bool) -> None:
            path = self.path.split("?")[0]
            file = folder / path.removeprefix(f"/{name}/resolve/{COMMIT}/")
            if path == f"/api/models/{name}/revision/main":
                content = json.dumps({"id": name, "sha": COMMIT, "siblings": [], "tags": [], "private": False}).encode()
            elif path == f"/api/models/{name}/tree/{COMMIT}":
                content = json.dumps([_entry(one) for one in sorted(folder.iterdir())]).encode()
            elif file.is_file():
                content = file.read_bytes()
                fetched.extend([file.name] * body)
            else:
                content = b""
            self.send_response(200 if content else 404)
            if not content:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            self.wfile.write(content if body else b"")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", fetched
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _entry(file: Path) -> dict[str, object]:
    content = file.read_bytes()
    return {"type": "file", "path": file.name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
