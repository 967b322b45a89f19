"""Serve a site on this machine: compressed files, and the headers that let a page use threads."""

import sys
from collections.abc import Callable
from email.message import Message
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from seq2edge.errors import UsageError

HOST = "127.0.0.1"
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}
TYPES = {
    ".mjs": "text/javascript",
    ".js": "text/javascript",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
}


class SiteHandler(SimpleHTTPRequestHandler):
    """Answer with the compressed copy of a file where the browser accepts it."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, **TYPES}  # noqa: RUF012
    protocol_version = "HTTP/1.1"
    headers: Message

    encoding = ""

    def send_head(self) -> Any:
        path = Path(self.translate_path(self.path))
        accepted = "gzip" in self.headers.get("Accept-Encoding", "")
        self.encoding = "gzip" if accepted and path.with_name(f"{path.name}.gz").is_file() else ""
        if self.encoding:
            self.path = f"{urlsplit(self.path).path}.gz"
        return super().send_head()

    def guess_type(self, path: Any) -> str:
        return super().guess_type(str(path).removesuffix(".gz") if self.encoding else path)

    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if self.encoding:
            self.send_header("Content-Encoding", self.encoding)
        super().end_headers()

    def list_directory(self, path: Any) -> None:
        self.send_error(404)

    def log_message(self, format: str, *values: Any) -> None:
        """Write nothing: a page makes dozens of requests."""


class SiteServer(ThreadingHTTPServer):
    """Serve a folder with ``SiteHandler``, also to browsers that leave in the middle of a file."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def serve_site(folder: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve a site until it is interrupted; ``ready`` is called with its address."""
    try:
        server = SiteServer((HOST, port), partial(SiteHandler, directory=str(folder)))
    except OSError as error:
        raise UsageError(f"port {port} cannot be used ({error.strerror}); choose another one with --port") from None
    with server:
        ready(f"http://localhost:{server.server_port}/")
        server.serve_forever()
