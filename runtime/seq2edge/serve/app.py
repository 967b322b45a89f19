"""Put the APIs and the page together, and give every answer its headers, its count and its line in the log."""

import logging
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2edge.errors import BundleError, MissingExtraError, Seq2EdgeError, TimeLimitError
from seq2edge.serve.libretranslate import LibreTranslate
from seq2edge.serve.limits import Bodies
from seq2edge.serve.openapi import openapi
from seq2edge.serve.service import ClientGoneError, Service
from seq2edge.serve.settings import ApiError
from seq2edge.serve.v1 import V1

PAGE = Path(__file__).parent / "page"
LOG = logging.getLogger("seq2edge.serve")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
BUSY = (TimeLimitError, BundleError, MissingExtraError)  # not the client's fault


def make_app(service: Service) -> Starlette:
    """Return the application: routes, and what every answer has in common."""

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics(request: Request) -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def description(request: Request) -> Response:
        targets = dict.fromkeys(code for model in service.models.models.values() for code in model.targets)
        return JSONResponse(openapi(service.settings, service.models.sources, [*targets]))

    routes: list[Route] = [
        Route("/health", health),
        Route("/metrics", metrics),
        Route("/openapi.json", description),
        *LibreTranslate(service).routes(),
        *V1(service).routes(),
    ]
    if service.settings.page:
        routes += [_page_route(path) for path in sorted(PAGE.iterdir())]
    origins = [one.strip() for one in service.settings.cors_origin.split(",") if one.strip()]
    cors = [Middleware(CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"])]
    middleware = [*(cors if origins else []), Middleware(Gate, service=service)]  # pages may read errors, too
    return Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={HTTPException: _http_error},
        lifespan=_lifespan(service),
    )


def _page_route(path: Path) -> Route:
    async def send(request: Request) -> Response:
        return FileResponse(path, headers={"Cache-Control": "no-cache"})

    return Route("/" if path.name == "index.html" else f"/{path.name}", send)


def _lifespan(service: Service) -> Any:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        service.batcher.close()

    return lifespan


class Gate:
    """Limit the body, turn errors into answers, add safe headers, count, and log without any text of users."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service, self.bodies = app, service, Bodies(service.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        with self.bodies.receiving(receive) as receive:
            try:
                await self.app(scope, receive, send_safely)
            except (ClientGoneError, ClientDisconnect):
                status = status or 499  # as nginx counts them
            except Exception as error:
                answer = _error_answer(error)  # logs what was not expected, also if it is too late for an answer
                if not status:
                    await answer(scope, receive, send_safely)
        self._finish(scope, status, time.perf_counter() - started)

    def _finish(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = route.path if isinstance(route, Route) else "other"  # never what a client made up
        self.service.metrics.answered(path, status, seconds)
        LOG.info("%s %s %d %.0f ms", scope["method"], path, status, 1000 * seconds)


def _error_answer(error: Exception) -> Response:
    """Return the answer to an error; what we did not expect is logged without its message, which may quote a text."""
    if isinstance(error, ApiError):
        return JSONResponse({"error": error.sentence}, error.status, headers=error.headers)
    if isinstance(error, Seq2EdgeError):
        return JSONResponse({"error": str(error)}, 503 if isinstance(error, BUSY) else 400)
    if isinstance(error, TimeoutError):
        return JSONResponse(
            {"error": "the request took longer than this server allows"}, 503, headers={"Retry-After": "1"}
        )
    frames = "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)))
    LOG.error("unexpected %s\n%s", type(error).__name__, frames)
    return JSONResponse({"error": "the server has made a mistake, which is in its log"}, 500)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
