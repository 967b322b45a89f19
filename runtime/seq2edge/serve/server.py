"""Run the server: connections, signals, and an end that finishes what was begun."""

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from seq2edge.devices.interruption import leave_signals
from seq2edge.devices.memory import return_freed_memory
from seq2edge.errors import DataError
from seq2edge.serve.app import make_app
from seq2edge.serve.models import Models
from seq2edge.serve.service import Service
from seq2edge.serve.settings import ServeSettings
from seq2edge.translator import Translator

LOG = logging.getLogger("seq2edge.serve")
LINGER = 60.0  # seconds to read the last answer on a connection that is to be closed
OPEN_FILES = 65_536  # connections that a server may have, as far as the system allows


class ImpatientProtocol(H11Protocol):
    """Close connections that do not send the head of a request, or read an answer, in time.

    uvicorn waits forever for the first request, for the rest of a head, and for a client that does not read.
    """

    idle_limit = 10.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self.idle_limit, self._give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._expects_head:
            self._deadline.cancel()
        elif self._deadline.cancelled():
            self._deadline = self.loop.call_later(self.idle_limit, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self.loop.call_later(LINGER, self.transport.abort)  # the last answer was not read

    @property
    def _expects_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _give_up(self) -> None:
        if self._expects_head:
            self.timeout_keep_alive_handler()


class GracefulServer(uvicorn.Server):
    """Finish what was begun at SIGTERM and Ctrl-C, and exit with 0; load replaced bundles at SIGHUP."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service
        self._tasks: set[asyncio.Task[Any]] = set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.handle_exit, number, None)
            loop.add_signal_handler(signal.SIGHUP, self._reload)
        except (NotImplementedError, AttributeError):  # Windows, where uvicorn looks for the end ten times a second
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self.handle_exit)
        yield

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            host, port = server.sockets[0].getsockname()[:2]
            LOG.info("listening on http://%s:%d", f"[{host}]" if ":" in host else host, port)

    def _reload(self) -> None:
        task = asyncio.ensure_future(self._reload_and_log())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reload_and_log(self) -> None:
        with suppress(DataError):
            outcome = await self.service.reload()
            LOG.info("reloaded: %s", ", ".join(f"{len(names)} {what}" for what, names in outcome.items()))


def serve(arguments: list[str], settings: ServeSettings, **translator_options: Any) -> None:
    """Serve bundles until a signal ends it."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    leave_signals()
    return_freed_memory()
    with suppress(ImportError, ValueError, OSError):  # not on Windows
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, most), most))

    def load(folder: Path) -> Translator:
        return Translator(folder, threads=settings.batch_threads, time_limit=settings.time_limit, **translator_options)

    asyncio.run(_serve(Models(arguments, load, max_loaded=settings.max_loaded), settings))


async def _serve(models: Models, settings: ServeSettings) -> None:
    service = Service(models, settings)
    protocol = type("Protocol", (ImpatientProtocol,), {"idle_limit": settings.idle_limit})
    config = uvicorn.Config(
        make_app(service),
        host=settings.host,
        port=settings.port,
        http=protocol,
        ws="none",
        log_config=None,
        access_log=False,  # it has the query parameters, and so texts of users
        server_header=False,
        forwarded_allow_ips=settings.proxies,
        timeout_keep_alive=int(settings.idle_limit) or 1,
        timeout_graceful_shutdown=int(settings.time_limit) or 1,
        backlog=2048,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # no line for each wrong request
    await GracefulServer(config, service).serve()
