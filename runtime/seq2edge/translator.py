"""Translate text with a bundle: the runtime in one class.

Hypotheses to translations, and translations of parts to that of the whole text.

A translation piece by piece, as soon as each piece is certain.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import EMBEDDED, load_bundle
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import default_tags
from seq2edge.devices.auto import resolve_device
from seq2edge.devices.cpu import allowed_cpus
from seq2edge.devices.registry import DeviceConfig
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import TextTooLongError, UsageError
from seq2edge.files.file_translation import in_groups, translate_file
from seq2edge.files.formats import Format
from seq2edge.files.lines import Errors
from seq2edge.options import CallOptions, resolve_options
from seq2edge.results import Score, Summary, Translation
from seq2edge.scoring.attention import joined as joined_attention
from seq2edge.scoring.scorer import TargetScorer
from seq2edge.search import Hook, Hypothesis, StreamingSearch, prefix_block
from seq2edge.search.batch_decode import Sentence, Workers, decode_sentences
from seq2edge.search.hypothesis import length_normalizer
from seq2edge.text.repetition import repeats
from seq2edge.text.segments import Segment, join, make_segments, stable_prefix
from seq2edge.text.tokenizer import Tokenizer, load_tokenizer


def translation_of(part: Segment, found: Hypothesis, prefix: tuple[int, ...], tokenizer: Tokenizer) -> Translation:
    """What one hypothesis says."""
    tokens = (*prefix, *found.tokens)
    inside = tokenizer.frame.inside(part.ids)
    return Translation(
        text=tokenizer.decode([tokens])[0],
        tokens=tokens,
        score=found.score,
        token_scores=tuple(found.token_scores),
        ended=found.ended,
        repeats=repeats(tokens, part.ids[inside.start : inside.stop]),
        truncated=part.truncated,
        unknown=part.unknown,
    )


def best_first(ranked: list[Translation]) -> Translation:
    """The best, with the others as its alternatives."""
    return replace(ranked[0], alternatives=tuple(ranked[1:]))


def of_whole_text(parts: Sequence[list[Translation]], options: GenerationOptions) -> list[Translation]:
    """The translations of a text, best first, from those of its parts: the n-th best of each part makes the n-th."""
    if len(parts) == 1:
        return parts[0]
    count = max(len(ranked) for ranked in parts)
    return [_joined([ranked[min(rank, len(ranked) - 1)] for ranked in parts], options) for rank in range(count)]


def _joined(parts: list[Translation], options: GenerationOptions) -> Translation:
    token_scores = tuple(score for part in parts for score in part.token_scores)
    attentions = [part.attention for part in parts if part.attention is not None]
    normal = length_normalizer(len(token_scores), options.length_penalty) if options.num_beams > 1 else 1
    return Translation(
        text=join([part.text for part in parts]),
        tokens=tuple(token for part in parts for token in part.tokens),
        score=sum(token_scores) / normal,
        token_scores=token_scores,
        ended=all(part.ended for part in parts),
        repeats=any(part.repeats for part in parts),
        parts=len(parts),
        truncated=any(part.truncated for part in parts),
        unknown=sum(part.unknown for part in parts),
        attention=joined_attention(attentions) if attentions else None,
    )


Grown = Generator[str, None, Translation]  # the text of a part so far, again and again, and then what became of it
HALF_A_CHARACTER = "\N{REPLACEMENT CHARACTER}"


class TextStream(Iterator[str]):
    """Iterate over it for pieces of text; behind the last, ``translation`` has the whole with all that is to know."""

    def __init__(self, grown: Grown) -> None:
        self.translation: Translation | None = None
        self._pieces = self._cut(grown)

    def __next__(self) -> str:
        return next(self._pieces)

    def _cut(self, grown: Grown) -> Iterator[str]:
        """What each text adds to the one before."""
        sent = ""
        try:
            while True:
                text = next(grown)
                certain = "" if text.endswith(HALF_A_CHARACTER) else stable_prefix(text)
                if certain.startswith(sent) and len(certain) > len(sent):
                    yield certain[len(sent) :]
                    sent = certain
        except StopIteration as stop:
            self.translation = stop.value
        yield from self._rest(sent)

    def _rest(self, sent: str) -> Iterator[str]:
        text = "" if self.translation is None else self.translation.text
        if not text.startswith(sent):
            raise RuntimeError(f"the pieces {sent!r} do not begin {text!r}: this is a mistake in seq2edge, please tell")
        if len(text) > len(sent):
            yield text[len(sent) :]


TEXTS_AT_ONCE = 512  # enough to find sentences of like length, few enough to answer soon
TEXTS_TO_WAIT_FOR = 64  # at most so many are still translated when an asynchronous call was cancelled
Prefix = tuple[int, ...]


class Translator:
    """A loaded bundle; without a path, the English-German demo model that comes with the package.

    ``threads`` work on one batch together, which makes a single sentence fast; left out, all CPUs that the process may
    use. ``workers`` translate several batches at the same time with the same weights in memory, which makes many
    sentences fast; the threads left out are then divided among them. It may be called from many threads.
    ``require_signature`` is a public key without whose owner's signature a bundle is refused (``seq2edge sign``).
    A bundle with a ``shortlist`` says only words that it lists for a text, unless that is turned off.

    ``device`` is a key of ``seq2edge.devices.registry.DEVICES``, or ``auto`` for the fastest one that works
    (``device_config`` then tells which). ``provider_options`` are those of onnxruntime's provider. ``notes`` says which nodes run elsewhere than
    on the device; with ``strict_device`` that is an error.

    In all methods, ``options`` are fields of ``GenerationOptions``, such as ``num_beams=1`` or ``length_penalty=0.6``,
    and of ``TextOptions``, such as ``long="error"``; what is left out is as the bundle says. A ``hook`` is called at
    each step with the numbers of the texts, the tokens so far and the scores of the next, and gives the scores back.
    Greedy search and sampling show it the model's raw scores, beam search log-probabilities. With several workers it
    may run in several threads at once. It may call the translator itself.
    """

    def __init__(
        self,
        bundle: Path | str | None = None,
        *,
        device: str = "cpu",
        threads: int | None = None,
        workers: int = 1,
        provider_options: Mapping[str, str] | None = None,
        strict_device: bool = False,
        require_signature: Path | str | None = None,
        shortlist: bool = True,
    ) -> None:
        for name, value in {"threads": threads, "workers": workers}.items():
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}, but must be at least 1")
        key = None if require_signature is None else Path(require_signature)
        self.bundle = load_bundle(Path(bundle) if bundle is not None else EMBEDDED, require_signature=key)
        self.manifest = self.bundle.manifest
        self.longest = self.manifest.max_positions
        self.threads = threads or max(1, allowed_cpus() // workers)
        files = {name: self.bundle.folder / name for name in self.manifest.files}
        tokenizer = load_tokenizer(self.manifest.tokenizer, self.manifest.tokens, files)
        self.tokenizer = tokenizer.tagged(default_tags(self.manifest.languages))
        wanted = DeviceConfig(device=device, options=dict(provider_options or {}), strict=strict_device)
        self.device_config = resolve_device(wanted, self.manifest)
        self.shortlist = shortlist and tensor_names.SHORTLIST in self.manifest.files
        self.engine = OnnxEngine(
            self.bundle, threads=self.threads, device_config=self.device_config, shortlist=self.shortlist
        )
        self._workers = Workers(workers, threads=self.threads)
        self._lock = Lock()
        self._loaded_reader: TargetScorer | None = None

    def __enter__(self) -> "Translator":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let the workers go when they have finished what was begun; later calls are refused."""
        self._workers.close()

    @property
    def notes(self) -> list[str]:
        """What to know of the device: the nodes of the model that run elsewhere."""
        return self.engine.notes

    def translate(
        self, texts: Sequence[str], *, prefixes: Sequence[str] | None = None, hook: Hook | None = None, **options: Any
    ) -> list[Translation]:
        """Translate each text; one that says nothing (empty, or only invisible characters) stays empty.

        ``prefixes``: what each translation has to begin with, as text.
        """
        return self._translate(*self._checked(texts, prefixes, options), hook)

    async def translate_async(
        self, texts: Sequence[str], *, prefixes: Sequence[str] | None = None, hook: Hook | None = None, **options: Any
    ) -> list[Translation]:
        """``translate`` for a program with an event loop, which goes on meanwhile; to cancel it ends it soon."""
        import asyncio  # which brings 7 MB

        texts, wanted, prefixes = self._checked(texts, prefixes, options)
        results: list[Translation] = []
        for first in range(0, len(texts), TEXTS_TO_WAIT_FOR):
            some = slice(first, first + TEXTS_TO_WAIT_FOR)
            starts = None if prefixes is None else prefixes[some]
            results += await asyncio.to_thread(self._translate, texts[some], wanted, starts, hook, first=first)
        return results

    def translate_iter(
        self,
        texts: Iterable[str],
        *,
        prefix: str = "",
        at_once: int = TEXTS_AT_ONCE,
        hook: Hook | None = None,
        **options: Any,
    ) -> Iterator[Translation]:
        """Translate a stream of any length in constant memory; ``at_once`` texts are read before the first answer.

        ``prefix`` is what every translation has to begin with.
        """
        if isinstance(texts, str | bytes):
            raise UsageError("translate_iter takes a stream of texts, not one text")
        if at_once < 1:
            raise UsageError(f"at_once is {at_once}, but must be at least 1")
        return chain.from_iterable(
            self.translate_groups(in_groups(texts, at_once), prefix=prefix, hook=hook, **options)
        )

    def translate_groups(
        self, groups: Iterable[list[str]], *, prefix: str = "", first: int = 0, hook: Hook | None = None, **options: Any
    ) -> Iterator[list[Translation]]:
        """Translate texts that come some at a time, and give the results of each group when it is done.

        ``prefix`` is what every translation has to begin with, ``first`` the number of the first text.
        """
        self._workers.check_open()
        _check_text("the prefix", prefix)
        return self._translate_groups(groups, resolve_options(options, self.manifest), prefix, first, hook)

    def translate_file(
        self,
        source: Path | str,
        target: Path | str,
        *,
        format: Format = "text",
        errors: Errors = "strict",
        resume: bool = False,
        prefix: str = "",
        hook: Hook | None = None,
        **options: Any,
    ) -> Summary:
        """Translate a file line by line into another, which appears under its name when it is complete.

        A run that was interrupted, however it was, goes on with ``resume``: no line is lost or translated twice.
        ``prefix`` is what every translation has to begin with. That a ``hook`` is still the same is up to the caller.
        """
        return translate_file(
            self,
            Path(source),
            Path(target),
            format=format,
            errors=errors,
            resume=resume,
            prefix=prefix,
            hook=hook,
            options=options,
        )

    def stream(self, text: str, *, prefix: str = "", hook: Hook | None = None, **options: Any) -> TextStream:
        """Translate one text and give the pieces of the translation as soon as they are certain.

        Greedy search and sampling give every token, beam search what all beams have in common.
        """
        self._workers.check_open()
        _check_text("the text", text)
        _check_text("the prefix", prefix)
        wanted = resolve_options(options, self.manifest)
        if wanted.generation.num_return_sequences > 1:
            count = wanted.generation.num_return_sequences
            raise UsageError(f"num_return_sequences is {count}, but a stream is one translation: set it to 1")
        return TextStream(self._grow(text, wanted, prefix, hook))

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, source_lang: str = "", target_lang: str = ""
    ) -> list[Score]:
        """The log-probability of each target, its end mark included, as the translation of its source.

        A first token that is forced, such as the tag of a language, stands before each target and does not count.
        """
        self._workers.check_open()
        _check_texts("source", sources)
        _check_texts("target", targets)
        if len(sources) != len(targets):
            raise UsageError(f"there are {len(sources)} sources and {len(targets)} targets, but must be as many")
        wanted = resolve_options({"source_lang": source_lang, "target_lang": target_lang}, self.manifest)
        tokenizer, forced = self._speaking(wanted), _forced(wanted)
        source_ids = tokenizer.encode(sources)
        target_ids = [[*forced, *ids] for ids in tokenizer.encode_target(targets)]
        self._check_lengths("source", source_ids)
        self._check_lengths("target", target_ids)
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

    def _checked(
        self, texts: Sequence[str], prefixes: Sequence[str] | None, options: dict[str, Any]
    ) -> tuple[Sequence[str], CallOptions, Sequence[str] | None]:
        """What a call was given, after a look at it."""
        self._workers.check_open()
        _check_texts("text", texts)
        if prefixes is not None:
            _check_texts("prefix", prefixes)
            if len(prefixes) != len(texts):
                raise UsageError(f"there are {len(prefixes)} prefixes for {len(texts)} texts, but must be as many")
        return texts, resolve_options(options, self.manifest), prefixes

    def _translate_groups(
        self, groups: Iterable[list[str]], wanted: CallOptions, prefix: str, first: int, hook: Hook | None
    ) -> Iterator[list[Translation]]:
        for texts in groups:
            _check_texts("text", texts, first=first)
            yield self._translate(texts, wanted, [prefix] * len(texts) if prefix else None, hook, first=first)
            first += len(texts)

    def _translate(
        self,
        texts: Sequence[str],
        wanted: CallOptions,
        prefixes: Sequence[str] | None,
        hook: Hook | None,
        *,
        first: int = 0,
    ) -> list[Translation]:
        """``first`` is the number of the first text, where these are a piece of a longer stream."""
        try:
            parts = self._parts(texts, wanted)
        except TextTooLongError as error:
            raise error.behind(first) from None
        starts = [self._prefix(part, prefixes, wanted) for part in parts]
        found = self._decode(parts, starts, wanted, hook, first)
        ranked = self._translations(parts, starts, found, wanted)
        results = [Translation(text="")] * len(texts)
        for number, places in groupby(range(len(parts)), key=lambda place: parts[place].number):
            whole = of_whole_text([ranked[place] for place in places], wanted.generation)
            results[number] = best_first(whole)
        return results

    def _speaking(self, wanted: CallOptions) -> Tokenizer:
        """The tokenizer for the languages and the source prefix that a call asks for."""
        return self.tokenizer.tagged(wanted.tags).with_source_prefix(wanted.text.source_prefix)

    def _parts(self, texts: Sequence[str], wanted: CallOptions) -> list[Segment]:
        return make_segments(texts, self._speaking(wanted), longest=self.longest, long=wanted.text.long)

    def _prefix(self, part: Segment, prefixes: Sequence[str] | None, wanted: CallOptions) -> Prefix:
        """What the output of a part has to begin with; only the first part of a text has such a prefix."""
        if prefixes is None or part.place > 0:
            return ()
        prefix = tuple(self.tokenizer.encode_prefix(prefixes[part.number]))
        forced = _forced(wanted)
        if prefix and prefix[: len(forced)] != forced:
            prefix = (*forced, *prefix)  # the search forces a first token only where there is no prefix
        if len(prefix) >= self.longest:
            raise UsageError(f"a prefix of {len(prefix)} tokens leaves no room: the model makes at most {self.longest}")
        return prefix

    def _decode(
        self, parts: list[Segment], starts: list[Prefix], wanted: CallOptions, hook: Hook | None, first: int
    ) -> list[list[Hypothesis]]:
        sentences = [
            Sentence(source=part.ids, prefix=start, number=first + part.number, part=part.place)
            for part, start in zip(parts, starts, strict=True)
        ]
        return decode_sentences(
            self.engine,
            sentences,
            wanted.generation,
            hook=hook,
            workers=self._workers,
            longest=self.longest,
            most_rows=self.engine.most_rows,
        )

    def _translations(
        self, parts: list[Segment], starts: list[Prefix], found: list[list[Hypothesis]], wanted: CallOptions
    ) -> list[list[Translation]]:
        ranked = [
            [translation_of(part, one, start, self.tokenizer) for one in hypotheses]
            for part, start, hypotheses in zip(parts, starts, found, strict=True)
        ]
        if not wanted.text.attention:
            return ranked
        return self._reader.with_attention(parts, ranked, wanted, self._speaking(wanted), self._workers)

    def _grow(self, text: str, wanted: CallOptions, prefix: str, hook: Hook | None) -> Grown:
        parts = self._parts([text], wanted)
        done: list[list[Translation]] = []
        before = ""
        for part in parts:
            start = self._prefix(part, [prefix] if prefix else None, wanted)
            options = wanted.generation.within(1 + self.longest, prefix_length=1 + len(start))
            block = prefix_block([[options.decoder_start_token_id, *start]], options)
            growing = StreamingSearch(self.engine.start([part.ids]), block, options, part=part.place, hook=hook)
            for tokens in growing:
                yield join([before, self.tokenizer.decode_so_far([*start, *tokens])])
            assert growing.found is not None
            done += self._translations([part], [start], [[growing.found]], wanted)
            before = join([before, done[-1][0].text])
        return best_first(of_whole_text(done, wanted.generation)) if done else Translation(text="")

    def _check_lengths(self, name: str, rows: list[list[int]]) -> None:
        for place, ids in enumerate(rows):
            if len(ids) > self.longest:
                raise TextTooLongError(place, len(ids), self.longest, name=name)

    @property
    def _reader(self) -> TargetScorer:
        """Loaded when it is first wanted, once."""
        with self._lock:
            if self._loaded_reader is None:
                vocabulary = self.tokenizer.target.get_piece_size()
                self._loaded_reader = TargetScorer(self.bundle, self.engine, vocabulary=vocabulary)
            return self._loaded_reader


def _forced(wanted: CallOptions) -> Prefix:
    first = wanted.generation.forced_bos_token_id
    return () if first is None else (first,)


def _check_texts(name: str, texts: Any, *, first: int = 0) -> None:
    """Refuse what is no list of texts; ``name`` says what each is, and ``first`` is the number of the first."""
    if isinstance(texts, str | bytes) or not hasattr(texts, "__getitem__"):
        raise UsageError(f"a list of texts was wanted, one {name} each, but {type(texts).__name__} was given")
    for number, text in enumerate(texts, start=first + 1):
        _check_text(f"{name} {number}", text)


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise UsageError(f"{name} is {type(text).__name__}, but must be str")
