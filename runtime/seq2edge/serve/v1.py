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
        model, options = await self._choose(values, texts)
        found = await unless_gone(request, self.service.translate(model, texts, **options))
        return JSONResponse({"model": model.name, "translations": _described(texts, found)})

    async def stream(self, request: Request) -> Response:
        values = await self._read(request)
        texts = _take_texts(values, "text")
        if len(texts) != 1 or values.get("num_return_sequences", 1) != 1:
            raise ApiError(400, "a stream is one translation of one text")
        model, options = await self._choose(values, texts)
        translator, split = await self.service.split(model, texts, **options)
        return EventStream(self.service.stream(translator, split), model.name, texts[0])

    async def score(self, request: Request) -> Response:
        values = await self._read(request)
        sources, targets = _take_texts(values, "source"), _take_texts(values, "target")
        check_characters([*sources, *targets], self.service.settings.max_characters)
        model, options = await self._choose(values, sources)
        unknown = sorted(options.keys() - {"source_lang", "target_lang"})
        if unknown:
            raise ApiError(400, f"unknown option {unknown[0][:40]!r}")
        found = await unless_gone(request, self._score(model, sources, targets, options))
        return JSONResponse({"model": model.name, "scores": [asdict(one) for one in found]})

    async def _score(self, model: ServedModel, sources: list[str], targets: list[str], options: Values) -> list[Any]:
        async with asyncio.timeout(self.service.settings.time_limit), self.service.scoring:
            translator = await self.service.models.translator(model, scores=True)
            return await asyncio.to_thread(translator.score, sources, targets, **options)

    async def _read(self, request: Request) -> Values:
        values = await read_json(request)
        self.service.admit(request, values)
        values.pop("api_key", None)
        return values

    async def _choose(self, values: Values, texts: list[str]) -> tuple[ServedModel, Values]:
        """Return the model that a request names, by name or by languages, and the options for its translator."""
        name, source, target = (_take_text(values, key) for key in ("model", "source_lang", "target_lang"))
        prefix = _take_text(values, "prefix")
        if source == "auto":
            [(source, _)] = await self.service.detect([" ".join(texts)])
        if name:
            model = self.service.models.named(name)
            languages = {key: code for key, code in (("source_lang", source), ("target_lang", target)) if code}
        else:
            model, languages = self.service.models.find(source, target)
        return model, {**values, **languages, **({"prefixes": [prefix] * len(texts)} if prefix else {})}


class EventStream(Response):
    """Send the pieces of a translation as server-sent events: text, then result or error."""

    media_type = "text/event-stream"

    def __init__(self, pieces: Pieces, model: str, text: str) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.pieces, self.model, self.text = pieces, model, text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await unless_gone(Request(scope, receive), self._send(send))

    async def _send(self, send: Send) -> None:
        async with aclosing(self._events()) as events:
            async for name, data in events:
                body = f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _events(self) -> AsyncGenerator[tuple[str, Values], None]:
        try:
            async with aclosing(self.pieces) as pieces:
                async for piece in pieces:
                    if isinstance(piece, str):
                        yield "text", {"text": piece}
                    else:
                        yield "result", {"model": self.model, "translation": _described([self.text], [piece])[0]}
        except (ApiError, Seq2EdgeError, TimeoutError) as error:
            yield "error", {"error": str(error) or "the translation took longer than this server allows"}


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
