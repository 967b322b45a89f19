"""Hold the bundles of the server: chosen by languages, loaded at first use, replaced without a failed request."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Manifest, file_state, read_manifest
from seq2edge.errors import BundleError, Seq2EdgeError, UsageError
from seq2edge.serve.settings import ApiError, language_name
from seq2edge.translator import Translator

NAMED = re.compile(r"(?P<source>[\w-]+):(?P<target>[\w-]+)=(?P<folder>.+)")


@dataclass(frozen=True)
class ServedModel:
    """A bundle on disk, and the languages that it translates."""

    name: str
    folder: Path
    manifest: Manifest
    state: object  # changes when the bundle is replaced
    sources: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def has_scorer(self) -> bool:
        """Whether it can align the words of a text and its translation."""
        return tensor_names.SCORER in self.manifest.files

    def languages(self, source: str, target: str) -> dict[str, str]:
        """Return the options that name the languages to a multilingual model."""
        tagged = self.manifest.languages
        options = {"source_lang": source if tagged.source_tag != "none" else ""}
        options |= {"target_lang": target if tagged.target_tag != "none" else ""}
        return {name: value for name, value in options.items() if value}

    def describe(self) -> dict[str, Any]:
        manifest = self.manifest
        return {
            "name": self.name,
            "source_languages": self.sources,
            "target_languages": self.targets,
            "family": manifest.family,
            "precision": manifest.precision,
            "parameters": manifest.parameters,
            "max_tokens": manifest.max_positions,
            "alignment": self.has_scorer,
            "license": manifest.rights.license,
            "attribution": manifest.rights.attribution,
        }


def read_model(argument: str, name: str | None = None) -> ServedModel:
    """Read the manifest of a bundle: a folder, or SOURCE:TARGET=FOLDER where it does not name its languages."""
    named = NAMED.fullmatch(argument)
    folder = Path(named["folder"] if named else argument)
    path = folder / tensor_names.MANIFEST
    if not path.is_file():
        raise BundleError(f"{folder} is not a bundle: it has no {tensor_names.MANIFEST}")
    state = file_state(path)
    manifest = read_manifest(path.read_bytes(), path)
    languages = manifest.languages
    sources = (*languages.codes,) if languages.source_tag != "none" else (languages.source,)
    targets = (*languages.codes,) if languages.target_tag != "none" else (languages.target,)
    if named:
        sources, targets = (named["source"],), (named["target"],)
    if not all((*sources, *targets)):
        raise UsageError(f"{folder} does not say what it translates: name its languages, as in -m en:pt={folder}")
    return ServedModel(name or folder.resolve().name, folder, manifest, state, sources, targets)


@dataclass
class LoadedModel:
    """The translator of a bundle as it was on disk in some state."""

    state: object
    translator: Translator
    scores: bool = False  # whether it can score and align without reading from disk


class Models:
    """All bundles of a server, and the translators of those that were used last."""

    def __init__(self, arguments: Sequence[str], load: Callable[[Path], Translator], *, max_loaded: int = 4) -> None:
        self._arguments, self._load, self.max_loaded = list(arguments), load, max_loaded
        self.models: dict[str, ServedModel] = {}
        for argument in arguments:
            model = read_model(argument)
            name = model.name if model.name not in self.models else f"{model.name}-{len(self.models) + 1}"
            self.models[name] = read_model(argument, name)
        self._loaded: OrderedDict[str, LoadedModel] = OrderedDict()
        self._tasks: set[asyncio.Task[LoadedModel]] = set()
        self._locks = {name: asyncio.Lock() for name in self.models}

    @property
    def loaded(self) -> list[str]:
        return [*self._loaded]

    @property
    def sources(self) -> list[str]:
        return [*dict.fromkeys(source for model in self.models.values() for source in model.sources)]

    def targets(self, source: str) -> list[str]:
        return [*dict.fromkeys(code for one in self.models.values() if source in one.sources for code in one.targets)]

    def languages(self) -> list[dict[str, Any]]:
        """List every language with those that it can be translated into, as LibreTranslate does."""
        every = dict.fromkeys([*self.sources, *(code for model in self.models.values() for code in model.targets)])
        return [
            {"code": code, "name": language_name(code), "targets": [one for one in self.targets(code) if one != code]}
            for code in every
        ]

    def named(self, name: str) -> ServedModel:
        if name not in self.models:
            raise ApiError(400, f"there is no model {name[:40]!r}; the models are {', '.join(self.models)}")
        return self.models[name]

    def find(self, source: str, target: str) -> tuple[ServedModel, dict[str, str]]:
        """Return the model of two languages, and the options that tell it which they are; empty ones are any."""
        for model in self.models.values():
            found_source = _match(source, model.sources) if source else model.sources[0]
            found_target = _match(target, model.targets) if target else model.targets[0]
            if found_source and found_target:
                return model, model.languages(found_source, found_target)
        if source and not _match(source, self.sources):
            raise ApiError(400, f"{source[:40]} is not supported")
        self.check_known(target)
        raise ApiError(400, f"{source[:40]} cannot be translated into {target[:40]} here")

    def check_known(self, code: str) -> None:
        if code and not _match(code, [entry["code"] for entry in self.languages()]):
            raise ApiError(400, f"{code[:40]} is not supported")

    async def translator(self, model: ServedModel, *, scores: bool = False) -> Translator:
        """Return the translator of a model, loaded if necessary; the least recently used one is let go.

        Loading goes on if the request that began it is given up: the next one needs it as well.
        """
        loaded = self._loaded.get(model.name)
        if loaded is None or (scores and not loaded.scores):
            task = asyncio.ensure_future(self._prepare(model, scores=scores))
            self._tasks.add(task)
            task.add_done_callback(self._finished)
            loaded = await asyncio.shield(task)
        if model.name in self._loaded:
            self._loaded.move_to_end(model.name)
        while len(self._loaded) > self.max_loaded:
            self._loaded.popitem(last=False)  # requests that still use it keep it alive
        return loaded.translator

    async def _prepare(self, model: ServedModel, *, scores: bool) -> LoadedModel:
        async with self._locks[model.name]:
            if model.name not in self._loaded:
                await self._load_model(model)
            if scores and not self._loaded[model.name].scores:
                await self._load_scorer(model)
            return self._loaded[model.name]

    def _finished(self, task: asyncio.Task[LoadedModel]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left to hear of it

    async def _load_model(self, model: ServedModel) -> None:
        self._loaded[model.name] = LoadedModel(model.state, await asyncio.to_thread(self._load, model.folder))

    async def _load_scorer(self, model: ServedModel) -> None:
        try:
            await asyncio.to_thread(self._loaded[model.name].translator.load_scorer)
        except BundleError:  # the bundle was replaced, and its scorer is that of another model
            await self._load_model(self.models[model.name])
            await asyncio.to_thread(self._loaded[model.name].translator.load_scorer)
        self._loaded[model.name].scores = True

    async def reload(self) -> dict[str, list[str]]:
        """Load the bundles again that were replaced; what cannot be loaded stays as it was."""
        outcome: dict[str, list[str]] = {"reloaded": [], "unchanged": [], "failed": []}
        for argument, name in zip(self._arguments, [*self.models], strict=True):
            async with self._locks[name]:
                try:
                    outcome[await self._reload(argument, name)].append(name)
                except (Seq2EdgeError, OSError):
                    outcome["failed"].append(name)
        return outcome

    async def _reload(self, argument: str, name: str) -> str:
        model = await asyncio.to_thread(read_model, argument, name)
        loaded = self._loaded.get(name)
        if model.state == self.models[name].state == (loaded.state if loaded else model.state):
            return "unchanged"
        if loaded:
            await self._load_model(model)
        self.models[name] = model
        return "reloaded"


def _match(code: str, known: Sequence[str]) -> str | None:
    """Return the language that a client means: the same code, or one that differs only in script or region."""
    plain = {one.replace("_", "-").lower(): one for one in known}
    asked = code.replace("_", "-").lower()
    return plain.get(asked) or plain.get(asked.partition("-")[0])
