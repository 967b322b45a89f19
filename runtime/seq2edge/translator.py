"""Translate text with a bundle: the runtime in one class; needs numpy, onnxruntime, sentencepiece and tokenizers."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from seq2edge.bundle import EMBEDDED, load_bundle
from seq2edge.cpus import allowed_cpus
from seq2edge.decoding import decode
from seq2edge.errors import TextTooLongError, UsageError
from seq2edge.generation import GenerationOptions, as_ids
from seq2edge.onnx_engine import OnnxEngine
from seq2edge.search import Hypothesis
from seq2edge.tokenizer import load_tokenizer

ID_OPTIONS = ("decoder_start_token_id", "eos_token_id", "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens")


@dataclass(frozen=True, kw_only=True)
class Translation:
    """What became of one text."""

    text: str
    tokens: tuple[int, ...] = ()  # the end mark included
    score: float = 0.0  # of beam search as Hugging Face's sequences_scores; else the sum of the log-probabilities
    ended: bool = True  # false: cut at the length limit
    alternatives: tuple["Translation", ...] = ()  # the next best, with num_return_sequences


class Translator:
    """A loaded bundle; without a path, the English-German demo model that comes with the package."""

    def __init__(self, bundle: Path | str | None = None, *, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise UsageError(f"threads is {threads}, but must be at least 1")
        self.bundle = load_bundle(Path(bundle) if bundle is not None else EMBEDDED)
        manifest, folder = self.bundle.manifest, self.bundle.folder
        self.options = manifest.generation
        self.longest = manifest.max_positions
        files = {name: folder / name for name in manifest.files}
        self.tokenizer = load_tokenizer(manifest.tokenizer, manifest.tokens, files)
        self.engine = OnnxEngine(self.bundle, threads=threads or allowed_cpus())

    def translate(self, texts: Sequence[str], **changes: Any) -> list[Translation]:
        """Translate each text; one that says nothing (empty, or only invisible characters) stays empty.

        ``changes`` are fields of ``GenerationOptions``, such as ``num_beams=1`` or ``length_penalty=0.6``; what is left
        out is as the bundle says.
        """
        if isinstance(texts, str):
            raise UsageError("translate takes a list of texts, not one text")
        options = self._options(changes)
        results = [Translation(text="")] * len(texts)
        sources = {place: ids for place, ids in enumerate(self.tokenizer.encode_or_nothing(texts)) if ids}
        self._check_lengths(sources)
        for place, found in zip(sources, decode(self.engine, list(sources.values()), options), strict=True):
            best, *others = map(self._translation, found)
            results[place] = replace(best, alternatives=tuple(others))
        return results

    def _translation(self, found: Hypothesis) -> Translation:
        text = self.tokenizer.decode([found.tokens])[0]
        return Translation(text=text, tokens=tuple(found.tokens), score=found.score, ended=found.ended)

    def _options(self, changes: dict[str, Any]) -> GenerationOptions:
        unknown = sorted(changes.keys() - {field.name for field in fields(GenerationOptions)})
        if unknown:
            raise UsageError(f"there is no option {unknown[0]!r}; GenerationOptions names those there are")
        try:
            options = replace(self.options, **changes)
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from None
        asked = options.longest(1) - 1  # tokens behind the start
        if not 1 <= asked <= self.longest:
            raise UsageError(f"output of {asked} tokens was asked for, but the model makes 1 to {self.longest}")
        self._check_ids(options)
        return options

    def _check_ids(self, options: GenerationOptions) -> None:
        shape = self.bundle.manifest.architecture
        if shape is None:
            return
        named = {name: as_ids(getattr(options, name)) for name in ID_OPTIONS}
        named |= {"bad_words_ids": tuple(token for word in options.bad_words_ids or () for token in word)}
        for name, ids in named.items():
            if any(token >= shape.target_vocabulary for token in ids):
                raise UsageError(
                    f"{name} is {max(ids)}, but the ids of the model are 0 to {shape.target_vocabulary - 1}"
                )

    def _check_lengths(self, sources: dict[int, list[int]]) -> None:
        for place, source in sources.items():
            if len(source) > self.longest:
                raise TextTooLongError(place, len(source), self.longest)
