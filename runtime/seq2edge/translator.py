"""Translate text with a bundle: the runtime in one class; needs numpy, onnxruntime and sentencepiece."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seq2edge.batching import group_by_tokens
from seq2edge.bundle import EMBEDDED, load_bundle
from seq2edge.cpus import allowed_cpus
from seq2edge.decoder import Engine
from seq2edge.errors import DataError, UsageError
from seq2edge.generation import GenerationOptions
from seq2edge.search import Hypothesis, search
from seq2edge.tokenizer import Tokenizer

BATCH_TOKENS = 1024


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
        self.longest = manifest.architecture.max_positions
        files = manifest.tokenizer
        self.tokenizer = Tokenizer.load(folder / files.source, folder / files.target, eos=manifest.tokens.eos)
        self.engine = Engine(self.bundle, threads=threads or allowed_cpus())

    def translate(
        self, texts: Sequence[str], *, num_beams: int | None = None, max_new_tokens: int | None = None
    ) -> list[Translation]:
        """Translate each text; what is left out of the options is as the bundle says."""
        if isinstance(texts, str):
            raise UsageError("translate takes a list of texts, not one text")
        options = self._options(num_beams=num_beams, max_new_tokens=max_new_tokens)
        results = [Translation(text="", tokens=(), score=0.0)] * len(texts)
        places = [place for place, text in enumerate(texts) if text.strip()]  # an empty line stays one
        sources = self.tokenizer.encode([texts[place] for place in places])
        self._check_lengths(sources, places)
        for batch in group_by_tokens([len(source) for source in sources], batch_tokens=BATCH_TOKENS):
            for row, best in zip(batch, self._decode([sources[row] for row in batch], options), strict=True):
                results[places[row]] = self._translation(best)
        return results

    def _decode(self, sources: list[list[int]], options: GenerationOptions) -> list[Hypothesis]:
        step = self.engine.start(sources)
        starts = [[options.decoder_start_token_id]] * len(sources)
        return [hypotheses[0] for hypotheses in search(step, starts, options)]

    def _translation(self, best: Hypothesis) -> Translation:
        text = self.tokenizer.decode([best.tokens])[0]
        return Translation(text=text, tokens=tuple(best.tokens), score=best.score)

    def _options(self, *, num_beams: int | None, max_new_tokens: int | None) -> GenerationOptions:
        given = {"num_beams": num_beams, "max_new_tokens": max_new_tokens}
        try:
            options = replace(self.options, **{name: value for name, value in given.items() if value is not None})
        except ValueError as error:
            raise UsageError(str(error)) from None
        if options.max_new_tokens > self.longest:
            raise UsageError(f"max_new_tokens is {options.max_new_tokens}, but the model has {self.longest} positions")
        return options

    def _check_lengths(self, sources: list[list[int]], places: list[int]) -> None:
        for place, source in zip(places, sources, strict=True):
            if len(source) > self.longest:
                raise DataError(
                    f"text {place + 1} has {len(source)} tokens, but the model reads at most {self.longest}; split it"
                )
