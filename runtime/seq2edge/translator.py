"""Translate text with a bundle: the runtime in one class; needs numpy, onnxruntime, sentencepiece and tokenizers."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, groupby
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

from seq2edge.asked import Asked, asked
from seq2edge.assembly import best_first, of_whole_text, translation_of
from seq2edge.bundle import EMBEDDED, load_bundle
from seq2edge.cpus import allowed_cpus
from seq2edge.decoding import Sentence, decode_sentences
from seq2edge.errors import TextTooLongError, UsageError
from seq2edge.file_translation import in_groups, translate_file
from seq2edge.fitting import join
from seq2edge.formats import Format
from seq2edge.languages import default_tags
from seq2edge.lines import Errors
from seq2edge.onnx_engine import OnnxEngine
from seq2edge.parts import Part, make_parts
from seq2edge.search import Growing, Hook, Hypothesis, prefix_block
from seq2edge.sessions import Device
from seq2edge.streaming import Grown, TextStream
from seq2edge.target_reader import TargetReader
from seq2edge.tokenizer import Tokenizer, load_tokenizer
from seq2edge.translation import Score, Summary, Translation

TEXTS_AT_ONCE = 512  # enough to find sentences of like length, few enough to answer soon
Prefix = tuple[int, ...]


class Translator:
    """A loaded bundle; without a path, the English-German demo model that comes with the package.

    ``threads`` work on one batch together, which makes a single sentence fast; left out, all CPUs that the process may
    use. ``workers`` translate several batches at the same time with the same weights in memory, which makes many
    sentences fast; the threads left out are then divided among them. It may be called from many threads.

    In all methods, ``options`` are fields of ``GenerationOptions``, such as ``num_beams=1`` or ``length_penalty=0.6``,
    and of ``TextOptions``, such as ``long="error"``; what is left out is as the bundle says. A ``hook`` is called at
    each step with the numbers of the texts, the tokens so far and the scores of the next, and gives the scores back.
    """

    def __init__(
        self,
        bundle: Path | str | None = None,
        *,
        device: Device = "cpu",
        threads: int | None = None,
        workers: int = 1,
    ) -> None:
        for name, value in {"threads": threads, "workers": workers}.items():
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}, but must be at least 1")
        self.bundle = load_bundle(Path(bundle) if bundle is not None else EMBEDDED)
        self.manifest = self.bundle.manifest
        self.longest = self.manifest.max_positions
        self.threads = threads or max(1, allowed_cpus() // workers)
        files = {name: self.bundle.folder / name for name in self.manifest.files}
        tokenizer = load_tokenizer(self.manifest.tokenizer, self.manifest.tokens, files)
        self.tokenizer = tokenizer.tagged(default_tags(self.manifest.languages))
        self.engine = OnnxEngine(self.bundle, threads=self.threads, device=device)
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="seq2edge") if workers > 1 else None
        self._lock = Lock()
        self._loaded_reader: TargetReader | None = None

    def __enter__(self) -> "Translator":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let the workers go; a translator without workers has nothing to close."""
        if self._workers is not None:
            self._workers.shutdown(cancel_futures=True)

    def translate(
        self, texts: Sequence[str], *, prefixes: Sequence[str] | None = None, hook: Hook | None = None, **options: Any
    ) -> list[Translation]:
        """Translate each text; one that says nothing (empty, or only invisible characters) stays empty.

        ``prefixes``: what each translation has to begin with, as text.
        """
        _check_list("translate", texts)
        if prefixes is not None and len(prefixes) != len(texts):
            raise UsageError(f"there are {len(prefixes)} prefixes for {len(texts)} texts, but must be as many")
        return self._translate(texts, asked(options, self.manifest), prefixes, hook)

    async def translate_async(
        self, texts: Sequence[str], *, prefixes: Sequence[str] | None = None, hook: Hook | None = None, **options: Any
    ) -> list[Translation]:
        """``translate`` for a program with an event loop, which goes on meanwhile."""
        return await asyncio.to_thread(self.translate, texts, prefixes=prefixes, hook=hook, **options)

    def translate_iter(
        self, texts: Iterable[str], *, at_once: int = TEXTS_AT_ONCE, hook: Hook | None = None, **options: Any
    ) -> Iterator[Translation]:
        """Translate a stream of any length in constant memory; ``at_once`` texts are read before the first answer."""
        _check_list("translate_iter", texts)
        return chain.from_iterable(self.translate_groups(in_groups(texts, at_once), hook=hook, **options))

    def translate_groups(
        self, groups: Iterable[list[str]], *, prefix: str = "", first: int = 0, hook: Hook | None = None, **options: Any
    ) -> Iterator[list[Translation]]:
        """Translate texts that come some at a time, and give the results of each group when it is done.

        ``prefix`` is what every translation has to begin with, ``first`` the number of the first text.
        """
        wanted = asked(options, self.manifest)
        for texts in groups:
            yield self._translate(texts, wanted, [prefix] * len(texts) if prefix else None, hook, first=first)
            first += len(texts)

    def translate_file(
        self,
        source: Path | str,
        target: Path | str,
        *,
        format: Format = "text",
        errors: Errors = "strict",
        resume: bool = False,
        **options: Any,
    ) -> Summary:
        """Translate a file line by line into another, which appears under its name when it is complete.

        A run that was interrupted, however it was, goes on with ``resume``: no line is lost or translated twice.
        """
        return translate_file(
            self, Path(source), Path(target), format=format, errors=errors, resume=resume, options=options
        )

    def stream(self, text: str, *, prefix: str = "", hook: Hook | None = None, **options: Any) -> TextStream:
        """Translate one text and give the pieces of the translation as soon as they are certain.

        Greedy search and sampling give every token, beam search what all beams have in common.
        """
        return TextStream(self._grow(text, asked(options, self.manifest), prefix, hook))

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, source_lang: str = "", target_lang: str = ""
    ) -> list[Score]:
        """The log-probability of each target, its end mark included, as the translation of its source.

        A first token that is forced, such as the tag of a language, stands before each target and does not count.
        """
        _check_list("score", sources)
        _check_list("score", targets)
        if len(sources) != len(targets):
            raise UsageError(f"there are {len(sources)} sources and {len(targets)} targets, but must be as many")
        wanted = asked({"source_lang": source_lang, "target_lang": target_lang}, self.manifest)
        tokenizer, forced = self._speaking(wanted), _forced(wanted)
        source_ids = tokenizer.encode(sources)
        target_ids = [[*forced, *ids] for ids in tokenizer.encode_target(targets)]
        for ids in (source_ids, target_ids):
            self._check_lengths(ids)
        found = self._reader.log_probabilities(
            list(zip(source_ids, target_ids, strict=True)), wanted.generation.decoder_start_token_id, self._workers
        )
        return [
            Score(
                score=float(scores[len(forced) :].sum(dtype="float64")),
                tokens=tuple(ids[len(forced) :]),
                token_scores=tuple(scores[len(forced) :].tolist()),
            )
            for ids, scores in zip(target_ids, found, strict=True)
        ]

    def _translate(
        self,
        texts: Sequence[str],
        wanted: Asked,
        prefixes: Sequence[str] | None,
        hook: Hook | None,
        *,
        first: int = 0,
    ) -> list[Translation]:
        """``first`` is the number of the first text, where these are a piece of a longer stream."""
        try:
            parts = make_parts(texts, self._speaking(wanted), longest=self.longest, long=wanted.text.long)
        except TextTooLongError as error:
            raise error.behind(first) from None
        starts = [self._prefix(parts, place, prefixes, wanted) for place in range(len(parts))]
        found = self._decode(parts, starts, wanted, hook, first)
        ranked = self._translations(parts, starts, found, wanted)
        results = [Translation(text="")] * len(texts)
        for number, places in groupby(range(len(parts)), key=lambda place: parts[place].number):
            whole = of_whole_text([ranked[place] for place in places], wanted.generation)
            results[number] = best_first(whole)
        return results

    def _speaking(self, wanted: Asked) -> Tokenizer:
        """The tokenizer for the languages that a call asks for."""
        return self.tokenizer.tagged(wanted.tags)

    def _prefix(self, parts: list[Part], place: int, prefixes: Sequence[str] | None, wanted: Asked) -> Prefix:
        """What the output of a part has to begin with; only the first part of a text has such a prefix.

        A first token that is forced, such as the tag of a language, stands before it.
        """
        number = parts[place].number
        if prefixes is None or (place > 0 and parts[place - 1].number == number):
            return ()
        prefix = self.tokenizer.encode_prefix(prefixes[number])
        prefix = [*_forced(wanted), *prefix] if prefix else prefix
        if len(prefix) >= self.longest:
            raise UsageError(f"a prefix of {len(prefix)} tokens leaves no room: the model makes at most {self.longest}")
        return tuple(prefix)

    def _decode(
        self, parts: list[Part], starts: list[Prefix], wanted: Asked, hook: Hook | None, first: int
    ) -> list[list[Hypothesis]]:
        sentences = [
            Sentence(source=part.ids, prefix=start, number=first + part.number)
            for part, start in zip(parts, starts, strict=True)
        ]
        return decode_sentences(
            self.engine, sentences, wanted.generation, hook=hook, workers=self._workers, longest=self.longest
        )

    def _translations(
        self, parts: list[Part], starts: list[Prefix], found: list[list[Hypothesis]], wanted: Asked
    ) -> list[list[Translation]]:
        ranked = [
            [translation_of(part, one, start, self.tokenizer) for one in hypotheses]
            for part, start, hypotheses in zip(parts, starts, found, strict=True)
        ]
        if not wanted.text.attention:
            return ranked
        return self._reader.with_attention(parts, ranked, wanted, self._speaking(wanted), self._workers)

    def _grow(self, text: str, wanted: Asked, prefix: str, hook: Hook | None) -> Grown:
        parts = make_parts([text], self._speaking(wanted), longest=self.longest, long=wanted.text.long)
        done: list[list[Translation]] = []
        before = ""
        for place, part in enumerate(parts):
            start = self._prefix(parts, place, [prefix] if prefix else None, wanted)
            options = wanted.generation.within(1 + self.longest, prefix_length=1 + len(start))
            block = prefix_block([[options.decoder_start_token_id, *start]], options)
            growing = Growing(self.engine.start([part.ids]), block, options, hook=hook)
            for tokens in growing:
                yield join([before, self.tokenizer.decode([[*start, *tokens]])[0]])
            assert growing.found is not None
            done += self._translations([part], [start], [[growing.found]], wanted)
            before = join([before, done[-1][0].text])
        return best_first(of_whole_text(done, wanted.generation)) if done else Translation(text="")

    def _check_lengths(self, rows: list[list[int]]) -> None:
        for place, ids in enumerate(rows):
            if len(ids) > self.longest:
                raise TextTooLongError(place, len(ids), self.longest)

    @property
    def _reader(self) -> TargetReader:
        """Loaded when it is first wanted, once."""
        with self._lock:
            if self._loaded_reader is None:
                vocabulary = self.tokenizer.target.get_piece_size()
                self._loaded_reader = TargetReader(self.bundle, self.engine, vocabulary=vocabulary)
            return self._loaded_reader


def _forced(wanted: Asked) -> Prefix:
    first = wanted.generation.forced_bos_token_id
    return () if first is None else (first,)


def _check_list(method: str, texts: object) -> None:
    if isinstance(texts, str):
        raise UsageError(f"{method} takes a list of texts, not one text")
