"""The API of LibreTranslate, as its clients use it: JSON, forms and query parameters."""

import asyncio
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import PurePath
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from seq2edge.serve.detection import detect
from seq2edge.serve.documents import READERS, Document, html_document
from seq2edge.serve.service import Service, read_json, unless_gone
from seq2edge.serve.settings import ApiError, language_name

_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s;\"']+)", re.IGNORECASE)
KEPT_BYTES = 64_000_000  # of translated files that wait for their download
Values = dict[str, Any]


class LibreTranslate:
    """The routes, and the translated files that were not downloaded yet."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._files: OrderedDict[str, bytes] = OrderedDict()

    def routes(self) -> list[Route]:
        return [
            Route("/translate", self.translate, methods=["POST"]),
            Route("/detect", self.detect, methods=["POST"]),
            Route("/languages", self.languages),
            Route("/frontend/settings", self.frontend_settings),
            Route("/translate_file", self.translate_file, methods=["POST"]),
            Route("/download_file/{name}", self.download_file),
        ]

    async def languages(self, request: Request) -> Response:
        return JSONResponse(self.service.models.languages())

    async def frontend_settings(self, request: Request) -> Response:
        service, sources = self.service, self.service.models.sources
        target = service.models.targets(sources[0])[0]
        return JSONResponse(
            {
                "apiKeys": service.keys is not None,
                "charLimit": service.settings.max_characters,
                "frontendTimeout": 300,
                "keyRequired": service.keys is not None,
                "language": {
                    "source": {"code": sources[0], "name": language_name(sources[0])},
                    "target": {"code": target, "name": language_name(target)},
                },
                "suggestions": False,
                "supportedFilesFormat": [*READERS],
            }
        )

    async def detect(self, request: Request) -> Response:
        values = await read_values(request)
        self.service.admit(request, values)
        text = _texts(values)[0]
        found = await asyncio.to_thread(detect, text)
        return JSONResponse([{"language": code, "confidence": share} for code, share in found])

    async def translate(self, request: Request) -> Response:
        values = await read_values(request)
        self.service.admit(request, values)
        for name in ("q", "source", "target"):
            if not values.get(name):
                raise ApiError(400, f"Invalid request: missing {name} parameter")
        async with asyncio.timeout(self.service.settings.time_limit):
            return JSONResponse(await unless_gone(request, self._answer(values)))

    async def _answer(self, values: Values) -> Values:
        texts, count, form = _texts(values), _alternatives(values), _choice(values, "format", ("text", "html"))
        source, target = _language(values, "source"), _language(values, "target")
        self.service.check_alternatives(count)
        documents = await self._read(html_document, texts) if form == "html" else []
        found = await self._detect(documents or texts) if source == "auto" else None
        spoken = [source] * len(texts) if found is None else [code for code, _ in found]
        results: list[list[str]] = [[text] for text in texts]
        for code in dict.fromkeys(spoken):
            chosen = [number for number, one in enumerate(spoken) if one == code]
            if code == target:
                self.service.models.check_known(target)
                continue
            if documents:
                several = [[one] for one in await self._fill([documents[number] for number in chosen], code, target)]
            else:
                several = await self._translate([texts[number] for number in chosen], code, target, count)
            for number, one in zip(chosen, several, strict=True):
                results[number] = one
        return _described(results, found, isinstance(values["q"], list), with_alternatives=count > 0)

    async def _detect(self, texts: Sequence[str | Document]) -> list[tuple[str, float]]:
        return await self.service.detect([one if isinstance(one, str) else " ".join(one.texts) for one in texts])

    async def _read(self, read: Callable[[str], Document], texts: Sequence[str]) -> list[Document]:
        return await asyncio.to_thread(lambda: [read(text) for text in texts])

    async def _fill(self, documents: Sequence[Document], source: str, target: str) -> list[str]:
        """Translate the texts of documents, with their marks in place."""
        model, options = self.service.models.find(source, target)
        if not model.has_scorer:
            documents = [one.without_alignment() for one in documents]
        if any(one.needs_alignment for one in documents):
            options["attention"] = "all"
        texts = [text for one in documents for text in one.texts]
        found = iter(await self.service.translate(model, texts, **options))
        return await asyncio.to_thread(lambda: [one.filled(islice(found, len(one.runs))) for one in documents])

    async def _translate(self, texts: Sequence[str], source: str, target: str, alternatives: int) -> list[list[str]]:
        """Return the translations of each text, best first."""
        model, options = self.service.models.find(source, target)
        beams: Values = {}
        if alternatives:
            default = model.manifest.generation.num_beams
            beams = {"num_beams": max(default, alternatives + 1), "num_return_sequences": alternatives + 1}
        found = await self.service.translate(model, texts, **options, **beams)
        return [list(dict.fromkeys([one.text, *(other.text for other in one.alternatives)])) for one in found]

    async def translate_file(self, request: Request) -> Response:
        if "multipart/form-data" not in request.headers.get("content-type", ""):
            raise ApiError(400, "Invalid request: send the file as multipart/form-data")
        _check_charset(request)
        async with request.form(max_files=1, max_fields=10) as form:
            values = {**request.query_params, **{name: one for name, one in form.items() if isinstance(one, str)}}
            self.service.admit(request, values)
            upload = form.get("file")
            if not isinstance(upload, UploadFile) or not upload.filename:
                raise ApiError(400, "Invalid request: missing file parameter")
            name, content = PurePath(upload.filename), await upload.read()
        if name.suffix.lower() not in READERS:
            raise ApiError(400, f"files of this kind are not supported; these are: {', '.join(READERS)}")
        source, target = _language(values, "source"), _language(values, "target")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ApiError(400, "the file is not UTF-8 text") from None
        async with asyncio.timeout(self.service.settings.time_limit):
            result = await unless_gone(request, self._file(READERS[name.suffix.lower()], text, source, target))
        key = f"{secrets.token_urlsafe(24)}{name.suffix.lower()}"
        self._keep(key, result.encode())
        return JSONResponse({"translatedFileUrl": str(request.url_for("download_file", name=key))})

    async def _file(self, read: Callable[[str], Document], text: str, source: str, target: str) -> str:
        documents = await self._read(read, [text])
        if source == "auto":
            [(source, _)] = await self._detect(documents)
        if source == target:
            self.service.models.check_known(target)
            return text
        return (await self._fill(documents, source, target))[0]

    async def download_file(self, request: Request) -> Response:
        content = self._files.get(request.path_params["name"])
        if content is None:
            return JSONResponse({"error": "there is no such file any more"}, 404)
        headers = {"Content-Disposition": "attachment"}
        return Response(content, headers=headers, media_type="text/plain; charset=utf-8")

    def _keep(self, key: str, content: bytes) -> None:
        self._files[key] = content
        while sum(map(len, self._files.values())) > KEPT_BYTES and len(self._files) > 1:
            self._files.popitem(last=False)


def _described(
    results: list[list[str]], detected: list[tuple[str, float]] | None, is_list: bool, *, with_alternatives: bool
) -> Values:
    """Return the answer: lists if the question was a list."""
    answer: Values = {"translatedText": [one[0] for one in results]}
    if detected is not None:
        answer["detectedLanguage"] = [{"language": code, "confidence": share} for code, share in detected]
    if with_alternatives:
        answer["alternatives"] = [one[1:] for one in results]
    return answer if is_list else {name: several[0] for name, several in answer.items()}


async def read_values(request: Request) -> Values:
    """Return the parameters of a request, wherever its client puts them."""
    values: Values = {**request.query_params}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return values | await read_json(request)
    if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        _check_charset(request)
        async with request.form() as form:
            values |= {name: one for name, one in form.items() if isinstance(one, str)}
    return values


def _check_charset(request: Request) -> None:
    """Refuse other encodings than UTF-8: a client could choose any of Python's, and some take very long."""
    named = _CHARSET.search(request.headers.get("content-type", ""))
    if named and named[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        raise ApiError(400, "Invalid request: send the form in UTF-8")


def _texts(values: Mapping[str, Any]) -> list[str]:
    texts = values.get("q")
    several: list[Any] = texts if isinstance(texts, list) else [texts]
    if not several or not all(isinstance(text, str) for text in several) or texts == "":
        raise ApiError(400, "Invalid request: q must be a text or a list of texts, and not empty")
    return several


def _language(values: Mapping[str, Any], name: str) -> str:
    code = values.get(name)
    if not isinstance(code, str) or not code:
        raise ApiError(400, f"Invalid request: missing {name} parameter")
    return code


def _choice(values: Mapping[str, Any], name: str, choices: Sequence[str]) -> str:
    value = values.get(name, choices[0])
    if value not in choices:
        raise ApiError(400, f"Invalid request: {name} must be {' or '.join(choices)}")
    return str(value)


def _alternatives(values: Mapping[str, Any]) -> int:
    value = values.get("alternatives", 0)
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:9])
    if isinstance(value, bool) or not isinstance(value, int) or not value >= 0:
        raise ApiError(400, "Invalid request: alternatives must be a number")
    return value
