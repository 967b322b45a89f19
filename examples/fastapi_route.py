"""Translate in a web service of one's own: uvicorn --app-dir examples fastapi_route:app .

``seq2edge serve`` is a complete service, which also merges the batches of many requests.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

from seq2edge import Seq2EdgeError, Translator


class Texts(BaseModel):
    texts: list[str] = Field(max_length=64)
    num_beams: int = Field(4, ge=1, le=8)


class Translations(BaseModel):
    translations: list[str]
    notes: list[list[str]]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    with Translator(time_limit=10) as app.state.translator:  # loaded once, used by all requests
        yield


app = FastAPI(title="Translation", lifespan=lifespan)


@app.post("/translate")
async def translate(body: Texts, request: Request) -> Translations:
    translator: Translator = request.app.state.translator
    try:
        results = await translator.translate_async(body.texts, num_beams=body.num_beams)
    except Seq2EdgeError as error:
        raise HTTPException(422, str(error)) from None
    return Translations(translations=[one.text for one in results], notes=[list(one.notes) for one in results])
