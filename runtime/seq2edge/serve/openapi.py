"""Describe the API as OpenAPI, from the dataclasses that the command line and Python use."""

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from seq2edge import __version__
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.text import TextOptions
from seq2edge.results import Score, Translation
from seq2edge.serve.settings import ServeSettings

Schema = dict[str, Any]
PLAIN: dict[Any, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    type(None): {"type": "null"},
}
TEXT, NUMBER = PLAIN[str], PLAIN[float]
TEXTS = {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}
NAMES = {"type": "array", "items": TEXT}


def openapi(settings: ServeSettings, sources: Sequence[str], targets: Sequence[str]) -> Schema:
    """Return the description of all paths."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "seq2edge", "version": __version__, "description": "Translate with bundles of seq2edge."},
        "paths": {**_libretranslate(settings, sources, targets), **_own(settings)},
    }


def schema_of(hint: Any) -> Schema:
    """Return the JSON schema of a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(one) for one in arguments]}
    if origin is tuple:
        return {"type": "array", "items": schema_of(arguments[0])}
    return dict(PLAIN[hint])


def options_schema(cls: type) -> Schema:
    """Return the properties of a settings dataclass, with their help texts."""
    hints = get_type_hints(cls)
    return {one.name: {**schema_of(hints[one.name]), "description": one.metadata["help"]} for one in fields(cls)}


def result_schema(cls: type, more: Mapping[str, Schema] | None = None) -> Schema:
    """Return the object that a result becomes."""
    skipped = ("attention", "alternatives")
    hints = {one.name: one.type for one in fields(cls) if one.name not in skipped}
    properties = {name: schema_of(hint) for name, hint in hints.items()}
    return {"type": "object", "properties": {**properties, **(more or {})}, "required": [*hints]}


def _object(properties: Mapping[str, Schema], *required: str, closed: bool = False) -> Schema:
    found: Schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return {**found, "additionalProperties": False} if closed else found


def _answers(content: Schema, *statuses: int, media: str = "application/json") -> Schema:
    error = {"application/json": {"schema": _object({"error": TEXT}, "error")}}
    found: Schema = {"200": {"description": "The answer.", "content": {media: {"schema": content}}}}
    meanings = {
        400: "The request is wrong.",
        403: "The API key is missing or wrong.",
        404: "There is no such file.",
        408: "The request came too slowly.",
        413: "The request is too large.",
        429: "There were too many requests.",
        503: "The server is busy, or lacks what it needs.",
    }
    return found | {str(one): {"description": meanings[one], "content": error} for one in statuses}


def _post(summary: str, body: Schema, content: Schema, *, form: Schema | None = None, media: str = "") -> Schema:
    contents = {"application/json": {"schema": body}}
    if form is not None:
        contents["application/x-www-form-urlencoded"] = {"schema": form}
    answers = _answers(content, 400, 403, 408, 413, 429, 503, media=media or "application/json")
    return {"post": {"summary": summary, "requestBody": {"required": True, "content": contents}, "responses": answers}}


def _get(summary: str, content: Schema, media: str = "application/json") -> Schema:
    return {"get": {"summary": summary, "responses": _answers(content, media=media)}}


def _libretranslate(settings: ServeSettings, sources: Sequence[str], targets: Sequence[str]) -> Schema:
    detected = _object({"language": TEXT, "confidence": NUMBER}, "language", "confidence")
    language = _object({"code": TEXT, "name": TEXT, "targets": NAMES}, "code", "name", "targets")
    code: Schema = {"type": "string", "minLength": 1}
    key: Schema = {"api_key": TEXT}
    languages: Schema = {"source": {"enum": [*sources, "auto"]}, "target": {"enum": [*targets]}}
    common: Schema = {**languages, "format": {"enum": ["text", "html"]}, **key}
    count: Schema = {"type": "integer", "minimum": 0, "maximum": settings.max_beams - 1}
    q: Schema = {"anyOf": [code, {"type": "array", "items": TEXT, "minItems": 1}]}
    asked = _object({"q": q, "alternatives": count, **common}, "q", "source", "target")
    form = _object({"q": code, "alternatives": count, **common}, "q", "source", "target")
    answer: Schema = {"translatedText": TEXTS, "detectedLanguage": {}, "alternatives": {"type": "array"}}
    status = _object({"status": TEXT}, "status")
    question = _object({"q": code, **key}, "q")
    return {
        "/translate": _post(
            "Translate texts, as LibreTranslate does.", asked, _object(answer, "translatedText"), form=form
        ),
        "/detect": _post("Detect a language.", question, {"type": "array", "items": detected}, form=question),
        "/languages": _get("List the languages.", {"type": "array", "items": language}),
        "/frontend/settings": _get("Tell clients the limits.", {"type": "object"}),
        "/translate_file": {
            "post": {
                "summary": "Translate a file of text, HTML, Markdown or subtitles.",
                "requestBody": {
                    "required": True,
                    "content": {
                        "multipart/form-data": {
                            "schema": _object(
                                {"file": {"type": "string", "format": "binary"}, **languages, **key},
                                *("file", "source", "target"),
                            )
                        }
                    },
                },
                "responses": _answers(
                    _object({"translatedFileUrl": TEXT}, "translatedFileUrl"), 400, 403, 408, 413, 429, 503
                ),
            }
        },
        "/health": _get("Tell whether the server works.", status),
        "/metrics": _get("Return the metrics for Prometheus.", TEXT, "text/plain"),
    }


def _own(settings: ServeSettings) -> Schema:
    options = options_schema(TextOptions) | options_schema(GenerationOptions)
    for name in ("num_beams", "num_return_sequences"):
        options[name] |= {"minimum": 1, "maximum": settings.max_beams}
    chosen = {"model": {**TEXT, "description": "name of a model; default: the one of the languages"}, "api_key": TEXT}
    prefix = {"prefix": {**TEXT, "description": "what every translation has to begin with"}}
    translation = result_schema(Translation, {"notes": NAMES, "alternatives": {"type": "array"}})
    many = _object({"text": TEXTS, **prefix, **chosen, **options}, "text", closed=True)
    one = _object({"text": TEXT, **prefix, **chosen, **options}, "text", closed=True)
    languages = {name: options[name] for name in ("source_lang", "target_lang")}
    pairs = _object({"source": TEXTS, "target": TEXTS, **languages, **chosen}, "source", "target", closed=True)
    model = {"name": TEXT, "source_languages": NAMES, "target_languages": NAMES, "loaded": PLAIN[bool]}
    outcome = dict.fromkeys(("reloaded", "unchanged", "failed"), NAMES)
    translations = {"model": TEXT, "translations": {"type": "array", "items": translation}}
    detected = {"detected_language": {**TEXT, "description": "if source_lang is auto"}}
    scores = {"model": TEXT, "scores": {"type": "array", "items": result_schema(Score)}}
    event = _object({"event": {"enum": ["text", "result", "error"]}, "data": TEXT}, "event", "data")
    reload = {
        "summary": "Load the bundles again that were replaced.",
        "responses": _answers(_object(outcome), 403, 429),
    }
    return {
        "/v1/translate": _post(
            "Translate texts with every option.", many, _object({**translations, **detected}, *translations)
        ),
        "/v1/stream": _post("Translate a text piece by piece.", one, event, media="text/event-stream"),
        "/v1/score": _post("Score given translations.", pairs, _object(scores, *scores)),
        "/v1/models": _get("List the models.", {"type": "array", "items": _object(model, *model)}),
        "/v1/reload": {"post": reload},
    }
