"""The API of seq2edge: every option, full results, streams and scores."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from seq2edge.errors import Seq2EdgeError
from seq2edge.results import Translation
from seq2edge.serve.limits import check_characters
from seq2edge.serve.models import ServedModel
from seq2edge.serve.service import Service, read_json, unless_gone
from seq2edge.serve.settings import ApiError
from seq2edge.serve.words import align_words

LAST_WORDS = 1.0  # seconds to send why a stream has ended
Values = dict[str, Any]
Pieces = AsyncGenerator[str | Translation, None]


class V1:
    """The routes under /v1."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def routes(self) -> list[Route]:
        return [
            Route("/v1/translate", self.translate, methods=["POST"]),
            Route("/v1/stream", self.stream, methods=["POST"]),
            Route("/v1/score", self.score, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/v1/reload", self.reload, methods=["POST"]),
        ]

    async def models(self, request: Request) -> Response:
        models, loaded = self.service.models.models, self.service.models.loaded
        return JSONResponse([{**one.describe(), "loaded": name in loaded} for name, one in models.items()])

    async def reload(self, request: Request) -> Response:
        self.service.admit(request)
        return JSONResponse(await self.service.reload())

    async def translate(self, request: Request) -> Response:
        values = await self._read(request)
        texts = _take_texts(values, "text")
        model, options, told = await self._choose(values, texts)
        found = await unless_gone(request, self.service.translate(model, texts, **options))
        return JSONResponse({**told, "translations": _described(texts, found)})

    async def stream(self, request: Request) -> Response:
        values = await self._read(request)
        texts = _take_texts(values, "text")
        if len(texts) != 1 or values.get("num_return_sequences", 1) != 1:
            raise ApiError(400, "a stream is one translation of one text")
        model, options, told = await self._choose(values, texts)
        translator, split = await self.service.split(model, texts, **options)
        pieces = self.service.stream(translator, split)
        return EventStream(pieces, told, texts[0], time_limit=self.service.settings.time_limit)

    async def score(self, request: Request) -> Response:
        values = await self._read(request)
        sources, targets = _take_texts(values, "source"), _take_texts(values, "target")
        check_characters([*sources, *targets], self.service.settings.max_characters)
        model, options, told = await self._choose(values, sources)
        unknown = sorted(options.keys() - {"source_lang", "target_lang"})
        if unknown:
            raise ApiError(400, f"unknown option {unknown[0][:40]!r}")
        found = await unless_gone(request, self._score(model, sources, targets, options))
        return JSONResponse({**told, "scores": [asdict(one) for one in found]})

    async def _score(self, model: ServedModel, sources: list[str], targets: list[str], options: Values) -> list[Any]:
        async with asyncio.timeout(self.service.settings.time_limit), self.service.scoring:
            translator = await self.service.models.translator(model, scores=True)
            return await asyncio.to_thread(translator.score, sources, targets, **options)

    async def _read(self, request: Request) -> Values:
        values = await read_json(request)
        self.service.admit(request, values)
        values.pop("api_key", None)
        return values

    async def _choose(self, values: Values, texts: list[str]) -> tuple[ServedModel, Values, Values]:
        """Return the model that a request names or whose languages it has, its options, and what the client is told."""
        name, source, target = (_take_text(values, key) for key in ("model", "source_lang", "target_lang"))
        prefix = _take_text(values, "prefix")
        detected = source == "auto"
        if detected:
            [(source, _)] = await self.service.detect([" ".join(texts)])
        if name:
            model = self.service.models.named(name)
            languages = {key: code for key, code in (("source_lang", source), ("target_lang", target)) if code}
        else:
            model, languages = self.service.models.find(source, target)
        options = {**values, **languages, **({"prefixes": [prefix] * len(texts)} if prefix else {})}
        return model, options, {"model": model.name, **({"detected_language": source} if detected else {})}


class EventStream(Response):
    """Send the pieces of a translation as server-sent events: text, then result or error.

    The head waits for the first event, since an error before it is an answer with its own status.
    """

    media_type = "text/event-stream"

    def __init__(self, pieces: Pieces, told: Values, text: str, *, time_limit: float) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.pieces, self.told, self.text, self.time_limit = pieces, told, text, time_limit
        self._is_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await unless_gone(Request(scope, receive), self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        try:
            async with asyncio.timeout(self.time_limit), aclosing(self.pieces) as pieces:
                async for piece in pieces:
                    await self._send(send, *self._event(piece))
        except (ApiError, Seq2EdgeError, TimeoutError) as error:
            if not self._is_begun:
                raise
            sentence = str(error) or "the translation took longer than this server allows"
            async with asyncio.timeout(LAST_WORDS):  # the client may have stopped reading
                await self._send(send, "error", {"error": sentence})
        await send({"type": "http.response.body", "body": b""})

    def _event(self, piece: str | Translation) -> tuple[str, Values]:
        if isinstance(piece, str):
            return "text", {"text": piece}
        return "result", {**self.told, "translation": _described([self.text], [piece])[0]}

    async def _send(self, send: Send, name: str, data: Values) -> None:
        if not self._is_begun:
            self._is_begun = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
        await send({"type": "http.response.body", "body": body, "more_body": True})


def _described(texts: Sequence[str], found: Sequence[Translation]) -> list[Values]:
    """Return translations as JSON; with attention also the words of each one, and those of its text."""
    several = []
    for text, one in zip(texts, found, strict=True):
        words = [{"target": target, "source": sources} for target, sources in align_words(text, one)]
        several.append(one.as_dict() | ({"words": words} if one.attention is not None else {}))
    return several


def _take_texts(values: Values, name: str) -> list[str]:
    texts = values.pop(name, None)
    several = texts if isinstance(texts, list) else [texts]
    if not several or not all(isinstance(text, str) for text in several):
        raise ApiError(400, f"{name} must be a text or a list of texts")
    return several


def _take_text(values: Values, name: str) -> str:
    text = values.pop(name, "")
    if not isinstance(text, str):
        raise ApiError(400, f"{name} must be a text")
    return text
