"""What all requests share: models, batches, limits and counts; translate for one request."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.requests import Request

from seq2edge.results import Translation
from seq2edge.serve.batcher import Batcher
from seq2edge.serve.detection import LONGEST, detect
from seq2edge.serve.limits import ApiKeys, RateLimiter, check_characters, count_characters
from seq2edge.serve.metrics import Metrics
from seq2edge.serve.models import Models, ServedModel
from seq2edge.serve.settings import ApiError, ServeSettings
from seq2edge.translator import SplitTexts, Translator

T = TypeVar("T")
GUESSES = 60  # wrong API keys that an address may send in a minute
QUICKLY_SPLIT = 2000  # characters that are split in less time than another thread takes to start


class Service:
    """A running server, without HTTP."""

    def __init__(self, models: Models, settings: ServeSettings) -> None:
        self.models, self.settings = models, settings
        self.keys = None if settings.keys_file is None else ApiKeys(settings.keys_file)
        self.rates = RateLimiter()
        self.metrics = Metrics(waiting=lambda: self.batcher.waiting, loaded=lambda: len(models.loaded))
        self.batcher = Batcher(
            settings.batch_workers,
            max_waiting=settings.max_waiting,
            merge=settings.merge,
            observe=self.metrics.batches.observe,
        )
        self.scoring = asyncio.Semaphore(1)

    def admit(self, request: Request, values: Mapping[str, Any] | None = None) -> None:
        """Check the API key of a request, and count it."""
        check_key(values or {})
        rate, client = self.settings.rate, request.client.host if request.client else ""
        if self.keys is not None:
            key = _key(request, values or {})
            try:
                rate, client = self.keys.rate(key) or rate, f"key {key}"
            except ApiError:
                self.rates.count(f"guesses of {client}", GUESSES)
                raise
        if rate:
            self.rates.count(client, rate)

    async def reload(self) -> dict[str, list[str]]:
        if self.keys is not None:
            self.keys.reload()
        return await self.models.reload()

    def check_beams(self, options: Mapping[str, Any]) -> None:
        for name in ("num_beams", "num_return_sequences"):
            value = options.get(name)
            if isinstance(value, int) and value > self.settings.max_beams:
                raise ApiError(400, f"{name} is {value}, but this server allows {self.settings.max_beams}")

    def check_alternatives(self, count: int) -> None:
        if count >= self.settings.max_beams:
            raise ApiError(400, f"alternatives is {count}, but this server allows {self.settings.max_beams - 1}")

    async def detect(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """Return the language of each text, of those that can be translated."""
        sources = self.models.sources
        check_characters([text[:LONGEST] for text in texts], self.settings.max_characters)
        if len(sources) == 1:
            return [(sources[0], 100.0)] * len(texts)
        return [(await asyncio.to_thread(detect, text, sources))[0] for text in texts]

    async def translate(self, model: ServedModel, texts: Sequence[str], **options: Any) -> list[Translation]:
        """Translate texts with one model, together with those of other requests."""
        async with asyncio.timeout(self.settings.time_limit):
            translator, split = await self.split(model, texts, **options)
            return await self.batcher.translate(translator, split)

    async def stream(self, translator: Translator, split: SplitTexts) -> AsyncGenerator[str | Translation, None]:
        """Yield the pieces of the translation of one text, and then the translation."""
        async with aclosing(self.batcher.stream(translator, split)) as pieces:
            async for piece in pieces:
                yield piece
        yield split.translations()[0]

    async def split(self, model: ServedModel, texts: Sequence[str], **options: Any) -> tuple[Translator, SplitTexts]:
        """Split texts into sentences, which takes long for long ones."""
        check_characters(texts, self.settings.max_characters)
        self.check_beams(options)
        count = count_characters(texts)
        self.metrics.characters.inc(count)
        translator = await self.models.translator(model, scores=bool(options.get("attention")))
        if count <= QUICKLY_SPLIT:
            return translator, translator.split(texts, **options)
        return translator, await asyncio.to_thread(translator.split, texts, **options)


def _key(request: Request, values: Mapping[str, Any]) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    bearer = token.strip() if kind.lower() == "bearer" else ""
    return str(values.get("api_key") or request.headers.get("x-api-key") or bearer)


def check_key(values: Mapping[str, Any]) -> None:
    if not isinstance(values.get("api_key", ""), str):
        raise ApiError(400, "Invalid request: api_key must be a text")


async def read_json(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request."""
    body = await request.body()
    try:
        content = json.loads(body or b"null", parse_constant=_refuse_constant)
        if b"\\ud" in body.lower():
            json.dumps(content, ensure_ascii=False).encode()  # half of a surrogate pair is not a character
    except (ValueError, RecursionError):
        raise ApiError(400, "the request is not valid JSON") from None
    if not isinstance(content, dict):
        raise ApiError(400, "the request is not a JSON object")
    return content


def _refuse_constant(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are not JSON


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Await the answer to a request; drop the work if the client goes away."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            gone.result()  # raises if the rest of the body did not come
            raise ClientGoneError
        return task.result()
    finally:
        for one in (task, gone):
            one.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await gone


class ClientGoneError(Exception):
    """The client has closed the connection, so nobody waits for an answer."""


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
