"""Decide who may ask and how much: API keys, rates, and the size of a request."""

import asyncio
import hashlib
import hmac
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from starlette.types import Message, Receive

from seq2edge.errors import DataError
from seq2edge.serve.settings import ApiError, ServeSettings

MAX_COUNTED = 10_000  # clients whose requests are counted at a time
WINDOW = 60.0  # seconds of a rate
BODIES = 32  # of the largest size, at a time


class ApiKeys:
    """The keys of a file; only their hashes are kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rates = self._read()

    def reload(self) -> None:
        self._rates = self._read()

    def rate(self, key: str) -> int | None:
        """Return the requests per minute of a key, None if it has no rate of its own; refuse an unknown key.

        Every key is compared, and in constant time, so that the time tells nothing about the keys.
        """
        asked, found = _digest(key), [False, 0]
        for digest, rate in self._rates.items():
            if hmac.compare_digest(digest, asked):
                found = [True, rate]
        if not found[0]:
            raise ApiError(403, "Invalid API key" if key else "this server needs an API key: send it as api_key")
        return found[1] or None

    def _read(self) -> dict[bytes, int]:
        rates = {}
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"the file of API keys {self.path} cannot be read ({type(error).__name__})") from None
        for number, line in enumerate(lines, start=1):
            key, *rest = line.partition("#")[0].split() or [""]
            if len(rest) > 1 or (rest and not rest[0].isdecimal()):
                raise DataError(f"line {number} of {self.path} is not a key with, optionally, its requests per minute")
            if key:
                rates[_digest(key)] = int(rest[0]) if rest else 0
        return rates


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()


class RateLimiter:
    """Count the requests of each client: as many at once as in a minute, and as many again each minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # requests that are left, and when that was

    def count(self, client: str, per_minute: int) -> None:
        """Count a request, or refuse it with the seconds until the next one is allowed."""
        now = self._clock()
        left, since = self._buckets.pop(client, (float(per_minute), now))
        left = min(per_minute, left + (now - since) * per_minute / WINDOW)
        self._buckets[client] = (left - 1 if left >= 1 else left, now)  # the last one of the dict
        while len(self._buckets) > MAX_COUNTED:
            del self._buckets[next(iter(self._buckets))]
        if left < 1:
            seconds = math.ceil((1 - left) * WINDOW / per_minute)
            raise ApiError(429, f"more than {per_minute} requests a minute; try again later", retry_after=seconds)


class Bodies:
    """The bodies of all requests that are not answered yet, which have to fit into memory."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings, self.size = settings, 0

    @contextmanager
    def receiving(self, receive: Receive) -> Iterator[Receive]:
        """Wrap the receiving end of a request: refuse a body that is too large, or whose rest does not come.

        Its parts must follow each other, and all of it must come in the time of a request.
        """
        settings, size, complete = self.settings, 0, False
        last = time.monotonic() + settings.time_limit

        async def receive_limited() -> Message:
            nonlocal size, complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout(max(0, min(settings.idle_limit, last - time.monotonic()))):
                    message = await receive()
            except TimeoutError:
                raise ApiError(408, "the rest of the request did not come in time") from None
            new = len(message.get("body", b""))
            size, self.size = size + new, self.size + new
            if size > settings.max_body:
                raise ApiError(413, f"the request has more than {settings.max_body} bytes")
            if self.size > BODIES * settings.max_body:
                raise ApiError(503, "too many large requests have arrived; try again later", retry_after=1)
            complete = not message.get("more_body", False)
            return message

        try:
            yield receive_limited
        finally:
            self.size -= size


def count_characters(texts: Sequence[str]) -> int:
    """Count characters; an empty text takes time as well."""
    return sum(len(text) or 1 for text in texts)


def check_characters(texts: Sequence[str], most: int) -> None:
    count = count_characters(texts)
    if count > most:
        raise ApiError(413, f"the text has {count} characters, but a request may have {most}")
