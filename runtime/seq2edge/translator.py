"""Translate text with a bundle: the runtime in one class; needs numpy, onnxruntime, sentencepiece and tokenizers."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from seq2edge.bundle import EMBEDDED, load_bundle
from seq2edge.cpus import allowed_cpus
from seq2edge.decoding import decode
from seq2edge.errors import DataError, UsageError
from seq2edge.generation import GenerationOptions
from seq2edge.onnx_engine import OnnxEngine
from seq2edge.search import Hypothesis
from seq2edge.tokenizer import load_tokenizer


@dataclass(frozen=True, kw_only=True)
class Translation:
    """What became of one text."""

    text: str
    tokens: tuple[int, ...]  # the end mark included
    score: float  # as Hugging Face's sequences_scores: log-probability over length to the length penalty


class Translator:
    """A loaded bundle; without a path, the English-German demo model that comes with the package."""

    def __init__(self, bundle: Path | str | None = None, *, threads: int | None = None) -> None:
        self.bundle = load_bundle(Path(bundle) if bundle is not None else EMBEDDED)
        manifest, folder = self.bundle.manifest, self.bundle.folder
        self.options = manifest.generation
        self.longest = manifest.max_positions
        files = {name: folder / name for name in manifest.files}
        self.tokenizer = load_tokenizer(manifest.tokenizer, manifest.tokens, files)
        self.engine = OnnxEngine(self.bundle, threads=threads or allowed_cpus())

    def translate(self, texts: Sequence[str], **changes: Any) -> list[Translation]:
        """Translate each text.

        ``changes`` are fields of ``GenerationOptions``, such as ``num_beams=1`` or ``length_penalty=0.6``; what is left
        out is as the bundle says.
        """
        if isinstance(texts, str):
            raise UsageError("translate takes a list of texts, not one text")
        options = self._options(changes)
        results = [Translation(text="", tokens=(), score=0.0)] * len(texts)
        places = [place for place, text in enumerate(texts) if text.strip()]  # an empty line stays one
        sources = self.tokenizer.encode([texts[place] for place in places])
        self._check_lengths(sources, places)
        for place, (best, *_) in zip(places, decode(self.engine, sources, options), strict=True):
            results[place] = self._translation(best)
        return results

    def _translation(self, best: Hypothesis) -> Translation:
        text = self.tokenizer.decode([best.tokens])[0]
        return Translation(text=text, tokens=tuple(best.tokens), score=best.score)

    def _options(self, changes: dict[str, Any]) -> GenerationOptions:
        unknown = sorted(changes.keys() - {field.name for field in fields(GenerationOptions)})
        if unknown:
            raise UsageError(f"there is no option {unknown[0]!r}; GenerationOptions names those there are")
        try:
            options = replace(self.options, **changes)
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from None
        if options.longest(1) > self.longest + 1:
            raise UsageError(
                f"output of {options.longest(1) - 1} tokens was asked for, but the model has {self.longest} positions"
            )
        return options

    def _check_lengths(self, sources: list[list[int]], places: list[int]) -> None:
        for place, source in zip(places, sources, strict=True):
            if len(source) > self.longest:
                raise DataError(
                    f"text {place + 1} has {len(source)} tokens, but the model reads at most {self.longest}; split it"
                )
