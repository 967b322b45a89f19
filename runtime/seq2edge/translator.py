"""Translate text with a bundle: the ``Translator`` and its streams."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import TIMEOUT_MAX, Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, overload

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.config.generation import GenerationOptions
from seq2edge.devices.auto import resolve_device
from seq2edge.devices.cpu import allowed_cpus
from seq2edge.devices.interruption import LimitedCall
from seq2edge.devices.registry import DeviceConfig
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import TextTooLongError, UsageError
from seq2edge.options import CallOptions, resolve_options
from seq2edge.results import Score, Summary, Translation
from seq2edge.search import BatchContext, Hook, Hypothesis, StreamingSearch, prefix_block
from seq2edge.search.batch_decode import Sentence, Workers, decode_batches
from seq2edge.search.hypothesis import length_normalizer
from seq2edge.text.repetition import repeats
from seq2edge.text.segments import GrowingText, Segment, join_texts, make_segments, stable_prefix
from seq2edge.text.tokenizer import Tokenizer, bundle_tokenizer

if TYPE_CHECKING:  # few users need these, and importing them takes time
    from seq2edge.files.file_translation import Format
    from seq2edge.files.lines import Errors
    from seq2edge.scoring.attention import Attention
    from seq2edge.scoring.scorer import TargetScorer

TEXTS_AT_ONCE = 512  # enough to group sentences of similar length, few enough to answer soon
TEXTS_PER_AWAIT = 64  # at most this many are still translated after an asynchronous call was cancelled
UNFINISHED_CHARACTER = "\N{REPLACEMENT CHARACTER}"
Prefix = tuple[int, ...]
TextsSoFar = Generator[str, None, Translation]  # yields the text so far again and again, returns the translation
Ranked = tuple[Segment, list[Translation]]  # best translation first
Unfinished = dict[int, dict[int, Ranked | None]]  # by text and segment; None where it is not translated yet


def translation_of(segment: Segment, hypothesis: Hypothesis, prefix: Prefix, tokenizer: Tokenizer) -> Translation:
    """Turn a hypothesis into a translation."""
    tokens = (*prefix, *hypothesis.tokens)
    inside = tokenizer.frame.text_positions(segment.ids)
    return Translation(
        text=tokenizer.decode([tokens])[0],
        tokens=tokens,
        score=hypothesis.score,
        token_scores=tuple(hypothesis.token_scores),
        ended=hypothesis.ended,
        repeats=repeats(tokens, segment.ids[inside.start : inside.stop]),
        truncated=segment.truncated,
        unknown=segment.unknown,
    )


def with_alternatives(ranked: list[Translation], options: GenerationOptions) -> Translation:
    """Return the best translation, with the others as its alternatives."""
    if options.num_return_sequences == 1:
        return ranked[0]
    return replace(ranked[0], alternatives=tuple(ranked[1:]), missing=options.num_return_sequences - len(ranked))


def join_segments(ranked: Sequence[Ranked], options: GenerationOptions) -> list[Translation]:
    """Join the ranked translations of the segments of a text: the n-th best ones make the n-th of the text."""
    if len(ranked) == 1:
        return ranked[0][1]
    segments, count = [segment for segment, _ in ranked], max(len(best) for _, best in ranked)
    return [_join(segments, [best[min(rank, len(best) - 1)] for _, best in ranked], options) for rank in range(count)]


def _join(segments: Sequence[Segment], parts: list[Translation], options: GenerationOptions) -> Translation:
    token_scores = tuple(score for part in parts for score in part.token_scores)
    attentions = [part.attention for part in parts if part.attention is not None]
    normalizer = length_normalizer(len(token_scores), options.length_penalty) if options.num_beams > 1 else 1
    return Translation(
        text=join_texts([part.text for part in parts], [segment.space for segment in segments]),
        tokens=tuple(token for part in parts for token in part.tokens),
        score=sum(token_scores) / normalizer,
        token_scores=token_scores,
        ended=all(part.ended for part in parts),
        repeats=any(part.repeats for part in parts),
        sentences=len({segment.sentence for segment in segments}),
        parts=len(parts),
        truncated=any(part.truncated for part in parts),
        unknown=sum(part.unknown for part in parts),
        attention=_join_attention(attentions) if attentions else None,
    )


def _join_attention(attentions: "list[Attention]") -> "Attention":
    from seq2edge.scoring.attention import joined

    return joined(attentions)


class StablePieces:
    """Cut a growing text into pieces that cannot change any more."""

    def __init__(self) -> None:
        self.sent = ""

    def next(self, text: str) -> str:
        """Return what the text so far adds to the pieces."""
        stable = "" if text.endswith(UNFINISHED_CHARACTER) else stable_prefix(text)
        if not stable.startswith(self.sent):
            return ""
        piece, self.sent = stable[len(self.sent) :], stable
        return piece

    def rest(self, text: str) -> str:
        """Return what the complete text adds."""
        if not text.startswith(self.sent):
            raise RuntimeError(
                f"the pieces {self.sent!r} are not the beginning of {text!r}: "
                "this is a bug in seq2edge, please report it"
            )
        return text[len(self.sent) :]


class TextStream(Iterator[str]):
    """Iterate over the pieces of a translation; after the last one, ``translation`` is the complete result."""

    def __init__(self, texts: TextsSoFar) -> None:
        self.translation: Translation | None = None
        self._pieces = filter(None, self._split(texts))

    def __next__(self) -> str:
        return next(self._pieces)

    def _split(self, texts: TextsSoFar) -> Iterator[str]:
        """Yield what each text adds to the one before."""
        pieces = StablePieces()
        try:
            while True:
                yield pieces.next(next(texts))
        except StopIteration as stop:
            self.translation = stop.value
        yield pieces.rest("" if self.translation is None else self.translation.text)


class SplitTexts:
    """The texts of one call as segments, which can be translated together with those of other calls.

    ``found`` holds the ranked translations of the segments that are translated, by their index.
    """

    def __init__(self, count: int, call: CallOptions, segments: list[Segment], prefixes: list[Prefix]) -> None:
        self.count, self.call, self.segments, self.prefixes = count, call, segments, prefixes
        self.found: dict[int, list[Translation]] = {}

    @property
    def complete(self) -> bool:
        return len(self.found) == len(self.segments)

    def translations(self) -> list[Translation]:
        """Join the segments of each text; all of them must be translated."""
        by_text: dict[int, list[Ranked]] = {index: [] for index in range(self.count)}
        for index, segment in enumerate(self.segments):
            by_text[segment.text_index].append((segment, self.found[index]))
        options = self.call.generation
        return [
            with_alternatives(join_segments(ranked, options), options) if ranked else Translation(text="")
            for ranked in by_text.values()
        ]


class Translator:
    """A loaded bundle; without a path, the English-Portuguese model that comes with the package.

    ``threads`` work together on one batch, which makes single sentences fast; the default is all CPUs that the process
    may use. ``workers`` translate several batches at the same time with the same weights in memory, which makes many
    sentences fast; the default threads are then divided among them. A translator may be called from many threads.
    ``require_signature`` is a public key: a bundle that its owner has not signed is refused (``seq2edge sign``).
    ``shortlist=False`` ignores the lexical shortlist of a bundle. ``time_limit`` is the number of seconds after which a
    call, a group of a stream of texts, or a piece of a streamed text is given up with a ``TimeLimitError``.

    ``device`` is a key of ``seq2edge.devices.registry.DEVICES``, or ``auto`` for the fastest one that works
    (``device_config`` then tells which). ``provider_options`` are passed to the execution provider. ``notes`` lists the
    nodes that run on another provider; with ``strict_device`` that is an error.

    In all methods, ``options`` are fields of ``GenerationOptions``, such as ``num_beams=1`` or ``length_penalty=0.6``,
    and of ``TextOptions``, such as ``long="error"``; the defaults come from the bundle. A ``hook`` is called at each
    step with the indices of the texts, the tokens so far and the scores of the next token, and returns the scores.
    Greedy search and sampling pass it logits, beam search log-probabilities. With several workers it may run in
    several threads at once. It may call the translator itself.
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
        time_limit: float | None = None,
    ) -> None:
        for name, value in {"threads": threads, "workers": workers}.items():
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}, but must be at least 1")
        if time_limit is not None and not 0 < time_limit < TIMEOUT_MAX:
            raise UsageError(f"time_limit is {time_limit}, but must be a positive number of seconds")
        self.time_limit = time_limit
        key = None if require_signature is None else Path(require_signature)
        self.bundle = load_bundle(Path(bundle) if bundle is not None else DEFAULT_BUNDLE, require_signature=key)
        self.manifest = self.bundle.manifest
        self.longest = self.manifest.max_positions
        self.threads = threads or max(1, allowed_cpus() // workers)
        self.tokenizer = bundle_tokenizer(self.bundle)
        device_config = DeviceConfig(device=device, options=dict(provider_options or {}), strict=strict_device)
        self.device_config = resolve_device(device_config, self.manifest)
        self.shortlist = shortlist and tensor_names.SHORTLIST in self.manifest.files
        self.engine = OnnxEngine(
            self.bundle, threads=self.threads, device_config=self.device_config, shortlist=self.shortlist
        )
        self.workers, self._workers = workers, Workers(workers, threads=self.threads)
        self._last_options: tuple[Any, CallOptions] | None = None
        self._lock = Lock()
        self._loaded_scorer: TargetScorer | None = None

    def __enter__(self) -> "Translator":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers when they have finished what was begun; later calls are refused."""
        self._workers.close()

    def load_scorer(self) -> None:
        """Load now what scores and attention need, which is otherwise loaded when it is first needed."""
        _ = self._scorer

    @property
    def notes(self) -> list[str]:
        """The nodes of the model that run on another execution provider than the device's."""
        return self.engine.notes

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Translator cannot be pickled or copied: create one in each process, from the same bundle, as "
            "seq2edge.corpus.worker does"
        )

    @overload
    def __call__(self, texts: str, **options: Any) -> str: ...

    @overload
    def __call__(self, texts: Sequence[str], **options: Any) -> list[str]: ...

    def __call__(self, texts: str | Sequence[str], **options: Any) -> str | list[str]:
        """Return the translation of a text, or of each text in a list, as plain text."""
        if isinstance(texts, str):
            return self.translate([texts], **options)[0].text
        return [result.text for result in self.translate(texts, **options)]

    def translate(
        self, texts: Sequence[str], *, prefixes: Sequence[str] | None = None, hook: Hook | None = None, **options: Any
    ) -> list[Translation]:
        """Translate each text; an empty one, or one of invisible characters alone, stays empty.

        ``prefixes`` are what each translation has to begin with, as text.
        """
        return self._translate(*self._check(texts, prefixes, options), hook)

    async def translate_async(
        self, texts: Sequence[str], *, prefixes: Sequence[str] | None = None, hook: Hook | None = None, **options: Any
    ) -> list[Translation]:
        """Translate without blocking the event loop; a cancelled call ends soon."""
        import asyncio  # which brings 7 MB

        texts, call, prefixes = self._check(texts, prefixes, options)
        results: list[Translation] = []
        for first in range(0, len(texts), TEXTS_PER_AWAIT):
            some = slice(first, first + TEXTS_PER_AWAIT)
            starts = None if prefixes is None else prefixes[some]
            results += await asyncio.to_thread(self._translate, texts[some], call, starts, hook, first=first)
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
        """Translate a stream of any length in constant memory; ``at_once`` texts are read before the first result.

        ``prefix`` is what every translation has to begin with.
        """
        if isinstance(texts, str | bytes):
            raise UsageError("translate_iter takes a stream of texts, not one text")
        if at_once < 1:
            raise UsageError(f"at_once is {at_once}, but must be at least 1")
        from seq2edge.files.file_translation import in_groups

        return chain.from_iterable(
            self.translate_groups(in_groups(texts, at_once), prefix=prefix, hook=hook, **options)
        )

    def translate_groups(
        self, groups: Iterable[list[str]], *, prefix: str = "", first: int = 0, hook: Hook | None = None, **options: Any
    ) -> Iterator[list[Translation]]:
        """Translate texts that arrive in groups, and yield the results of each group.

        ``prefix`` is what every translation has to begin with, ``first`` the index of the first text.
        """
        self._workers.check_open()
        _check_text("the prefix", prefix)
        return self._translate_groups(groups, self._resolve(options), prefix, first, hook)

    def translate_batches(
        self, groups: Iterable[list[str]], *, prefix: str = "", first: int = 0, hook: Hook | None = None, **options: Any
    ) -> Generator[dict[int, Translation], None, None]:
        """Translate texts that arrive in groups, and yield what each batch has finished, by the index of the text.

        ``prefix`` is what every translation has to begin with, ``first`` the index of the first text.
        """
        self._workers.check_open()
        _check_text("the prefix", prefix)
        return self._translate_batches(groups, self._resolve(options), prefix, first, hook)

    def translate_file(
        self,
        source: Path | str,
        target: Path | str,
        *,
        format: "Format" = "text",
        errors: "Errors" = "strict",
        resume: bool = False,
        prefix: str = "",
        hook: Hook | None = None,
        **options: Any,
    ) -> Summary:
        """Translate a file line by line into another, which appears under its name when it is complete.

        ``resume`` continues an interrupted run: no line is lost or translated twice. ``prefix`` is what every
        translation has to begin with. The caller has to pass the same ``hook`` again.
        """
        from seq2edge.files.file_translation import translate_file

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
        """Translate one text and yield the pieces of the translation as soon as they cannot change any more.

        Greedy search and sampling yield every token, beam search what all beams have in common.
        """
        self._workers.check_open()
        _check_text("the text", text)
        _check_text("the prefix", prefix)
        call = self._resolve(options)
        if call.generation.num_return_sequences > 1:
            count = call.generation.num_return_sequences
            raise UsageError(f"num_return_sequences is {count}, but a stream is one translation: set it to 1")
        return TextStream(self._texts_so_far(text, call, prefix, hook))

    def split(self, texts: Sequence[str], *, prefixes: Sequence[str] | None = None, **options: Any) -> SplitTexts:
        """Split the texts of a call into segments, for ``translate_segments``: a server has many calls at a time."""
        texts, call, prefixes = self._check(texts, prefixes, options)
        segments = self._segments(texts, call)
        return SplitTexts(len(texts), call, segments, [self._prefix(one, prefixes, call) for one in segments])

    def translate_segments(self, parts: Sequence[tuple[SplitTexts, int]]) -> Iterator[list[int]]:
        """Translate segments of calls with equal options in common batches, which changes no result.

        Yield the indices of the parts that each batch has translated; the results are in their ``found``.
        """
        call = parts[0][0].call
        segments = [texts.segments[index] for texts, index in parts]
        starts = [texts.prefixes[index] for texts, index in parts]
        with self._limited() as workers:
            for batch in self._decode(segments, starts, call, None, 0, workers):
                chosen, prefixes = [segments[one] for one in batch], [starts[one] for one in batch]
                ranked = self._translations(chosen, prefixes, [*batch.values()], call, workers)
                for one, several in zip(batch, ranked, strict=True):
                    texts, index = parts[one]
                    texts.found[index] = several
                yield [*batch]

    def stream_segment(self, texts: SplitTexts, index: int) -> Iterator[str]:
        """Translate one segment and yield its translation so far; the result is in ``texts.found``."""
        texts.found[index] = yield from self._segment_so_far(
            texts.segments[index], texts.prefixes[index], texts.call, None
        )

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, source_lang: str = "", target_lang: str = ""
    ) -> list[Score]:
        """Return the log-probability of each target, including its end token, as the translation of its source.

        A forced first token, such as a language tag, precedes each target and does not count.
        """
        self._workers.check_open()
        _check_texts("source", sources)
        _check_texts("target", targets)
        if len(sources) != len(targets):
            raise UsageError(
                f"there are {len(sources)} sources and {len(targets)} targets; there must be one target for each source"
            )
        call = resolve_options({"source_lang": source_lang, "target_lang": target_lang}, self.manifest)
        tokenizer, forced = self._tokenizer(call), _forced(call)
        source_ids = tokenizer.encode(sources)
        target_ids = [[*forced, *ids] for ids in tokenizer.encode_target(targets)]
        self._check_lengths("source", source_ids)
        self._check_lengths("target", target_ids)
        pairs = list(zip(source_ids, target_ids, strict=True))
        with self._limited() as workers:
            found = self._scorer.log_probabilities(pairs, call.generation.decoder_start_token_id, workers)
        return [
            Score(
                score=float(scores[len(forced) :].sum(dtype="float64")),
                tokens=tuple(ids[len(forced) :]),
                token_scores=tuple(scores[len(forced) :].tolist()),
            )
            for ids, scores in zip(target_ids, found, strict=True)
        ]

    def _check(
        self, texts: Sequence[str], prefixes: Sequence[str] | None, options: dict[str, Any]
    ) -> tuple[Sequence[str], CallOptions, Sequence[str] | None]:
        """Check the arguments of a call, and resolve its options."""
        self._workers.check_open()
        _check_texts("text", texts)
        if prefixes is not None:
            _check_texts("prefix", prefixes)
            if len(prefixes) != len(texts):
                raise UsageError(
                    f"there are {len(prefixes)} prefixes for {len(texts)} texts; there must be one for each text"
                )
        return texts, self._resolve(options), prefixes

    def _resolve(self, options: Mapping[str, Any]) -> CallOptions:
        """Apply the options of a call to the bundle's defaults; refuse those that do not fit into memory.

        Calls mostly have the same options, so the last ones are kept, unless a value could change.
        """
        key = tuple((name, type(value), value) for name, value in options.items())
        kept = self._last_options
        if kept is not None and kept[0] == key:
            return kept[1]
        call = resolve_options(options, self.manifest)
        self.engine.check_memory(call.generation)
        if all(value is None or isinstance(value, bool | int | float | str) for value in options.values()):
            self._last_options = key, call
        return call

    def _translate_groups(
        self, groups: Iterable[list[str]], call: CallOptions, prefix: str, first: int, hook: Hook | None
    ) -> Iterator[list[Translation]]:
        for texts in groups:
            _check_texts("text", texts, first=first)
            yield self._translate(texts, call, [prefix] * len(texts) if prefix else None, hook, first=first)
            first += len(texts)

    def _translate_batches(
        self, groups: Iterable[list[str]], call: CallOptions, prefix: str, first: int, hook: Hook | None
    ) -> Generator[dict[int, Translation], None, None]:
        for texts in groups:
            _check_texts("text", texts, first=first)
            prefixes = [prefix] * len(texts) if prefix else None
            for batch in self._batches(texts, call, prefixes, hook, first=first):
                yield {first + index: translation for index, translation in batch.items()}
            first += len(texts)

    def _translate(
        self,
        texts: Sequence[str],
        call: CallOptions,
        prefixes: Sequence[str] | None,
        hook: Hook | None,
        *,
        first: int = 0,
    ) -> list[Translation]:
        """Translate checked texts; ``first`` is the index of the first one in a longer stream."""
        finished: dict[int, Translation] = {}
        for batch in self._batches(texts, call, prefixes, hook, first=first):
            finished |= batch
        return [finished[index] for index in range(len(texts))]

    def _batches(
        self,
        texts: Sequence[str],
        call: CallOptions,
        prefixes: Sequence[str] | None,
        hook: Hook | None,
        *,
        first: int = 0,
    ) -> Iterator[dict[int, Translation]]:
        """Yield the texts that each batch has finished, by their index; blank ones come first."""
        try:
            segments = self._segments(texts, call)
        except TextTooLongError as error:
            raise error.shifted(first) from None
        starts = [self._prefix(segment, prefixes, call) for segment in segments]
        unfinished: Unfinished = {}
        for index, segment in enumerate(segments):
            unfinished.setdefault(segment.text_index, {})[index] = None
        yield {index: Translation(text="") for index in range(len(texts)) if index not in unfinished}
        with self._limited() as workers:
            for batch in self._decode(segments, starts, call, hook, first, workers):
                chosen = [segments[index] for index in batch]
                starts_of_batch = [starts[index] for index in batch]
                ranked = self._translations(chosen, starts_of_batch, [*batch.values()], call, workers)
                for index, segment, several in zip(batch, chosen, ranked, strict=True):
                    unfinished[segment.text_index][index] = (segment, several)
                yield _finished({segment.text_index for segment in chosen}, unfinished, call)

    def _tokenizer(self, call: CallOptions) -> Tokenizer:
        """Return the tokenizer for the languages and the source prefix of a call."""
        return self.tokenizer.with_tags(call.tags).with_source_prefix(call.text.source_prefix)

    def _segments(self, texts: Sequence[str], call: CallOptions) -> list[Segment]:
        return make_segments(
            texts, self._tokenizer(call), max_tokens=self.longest, long=call.text.long, split=call.text.split
        )

    def _prefix(self, segment: Segment, prefixes: Sequence[str] | None, call: CallOptions) -> Prefix:
        """Return the prefix of a segment's output; only the first segment of a text has one."""
        if prefixes is None or segment.index > 0:
            return ()
        prefix = tuple(self.tokenizer.encode_prefix(prefixes[segment.text_index]))
        forced = _forced(call)
        if prefix and prefix[: len(forced)] != forced:
            prefix = (*forced, *prefix)  # the search forces a first token only where there is no prefix
        if len(prefix) >= self.longest:
            raise UsageError(f"the prefix has {len(prefix)} tokens, but the model generates at most {self.longest}")
        return prefix

    def _decode(
        self,
        segments: list[Segment],
        starts: list[Prefix],
        call: CallOptions,
        hook: Hook | None,
        first: int,
        workers: Workers,
    ) -> Iterator[dict[int, list[Hypothesis]]]:
        sentences = [
            Sentence(source=segment.ids, prefix=start, sentence_id=first + segment.text_index, segment_id=segment.index)
            for segment, start in zip(segments, starts, strict=True)
        ]
        return decode_batches(
            self.engine,
            sentences,
            call.generation,
            hook=hook,
            workers=workers,
            longest=self.longest,
            most_rows=self.engine.most_rows,
        )

    def _translations(
        self,
        segments: list[Segment],
        starts: list[Prefix],
        hypotheses: list[list[Hypothesis]],
        call: CallOptions,
        workers: Workers,
    ) -> list[list[Translation]]:
        ranked = [
            [
                translation_of(segment, one, start, self.tokenizer)
                for one in best
                if one is best[0] or not one.placeholder
            ]
            for segment, start, best in zip(segments, starts, hypotheses, strict=True)
        ]
        if not call.text.attention:
            return ranked
        return self._scorer.with_attention(segments, ranked, call, self._tokenizer(call), workers)

    def _texts_so_far(self, text: str, call: CallOptions, prefix: str, hook: Hook | None) -> TextsSoFar:
        done: list[Ranked] = []
        so_far = GrowingText()
        for segment in self._segments([text], call):
            start = self._prefix(segment, [prefix] if prefix else None, call)
            growing = self._segment_so_far(segment, start, call, hook)
            try:
                while True:
                    yield so_far.joined(next(growing), segment.space)
            except StopIteration as stop:
                done.append((segment, stop.value))
            so_far.add(done[-1][1][0].text, segment.space)
        whole = join_segments(done, call.generation) if done else [Translation(text="")]
        return with_alternatives(whole, call.generation)

    def _segment_so_far(
        self, segment: Segment, start: Prefix, call: CallOptions, hook: Hook | None
    ) -> Generator[str, None, list[Translation]]:
        """Yield the translation of a segment again and again while it grows, and return the ranked translations."""
        options = call.generation.within(1 + self.longest, prefix_length=1 + len(start))
        block = prefix_block([[options.decoder_start_token_id, *start]], options)
        context = BatchContext(sentence_ids=[segment.text_index], segment_ids=[segment.index], hook=hook)
        with self._limited_here():
            search = StreamingSearch(self.engine.start([segment.ids]), block, options, context)
        for tokens in self._steps(search):
            yield self.tokenizer.decode_partial([*start, *tokens])
        assert search.result is not None
        with self._limited() as workers:
            [found] = self._translations([segment], [start], [[search.result]], call, workers)
        return found

    def _steps(self, search: StreamingSearch) -> Iterator[Sequence[int]]:
        """Yield what the search yields, each with its own time limit."""
        steps = iter(search)
        while True:
            with self._limited_here():
                tokens = next(steps, None)
            if tokens is None:
                return
            yield tokens

    @contextmanager
    def _limited(self) -> Iterator[Workers]:
        """Yield the workers, with a time limit if there is one."""
        if self.time_limit is None:
            yield self._workers
            return
        with LimitedCall(self.time_limit) as call:
            yield self._workers.within(call.in_this_thread)

    @contextmanager
    def _limited_here(self) -> Iterator[None]:
        """Limit what this thread does without workers."""
        with self._limited() as workers, workers.context():
            yield

    def _check_lengths(self, name: str, rows: list[list[int]]) -> None:
        for index, ids in enumerate(rows):
            if len(ids) > self.longest:
                raise TextTooLongError(index, len(ids), self.longest, name=name)

    @property
    def _scorer(self) -> "TargetScorer":
        """The scorer, loaded when it is first needed."""
        from seq2edge.scoring.scorer import TargetScorer

        with self._lock:
            if self._loaded_scorer is None:
                vocabulary = self.tokenizer.target.get_piece_size()
                self._loaded_scorer = TargetScorer(self.bundle, self.engine, vocabulary=vocabulary)
            return self._loaded_scorer


def _finished(indices: set[int], unfinished: Unfinished, call: CallOptions) -> dict[int, Translation]:
    """Remove and join the texts with these indices of which every segment is translated."""
    found = {}
    for index in indices:
        ranked = [pair for pair in unfinished[index].values() if pair is not None]
        if len(ranked) == len(unfinished[index]):
            found[index] = with_alternatives(join_segments(ranked, call.generation), call.generation)
            del unfinished[index]
    return found


def _forced(call: CallOptions) -> Prefix:
    first = call.generation.forced_bos_token_id
    return () if first is None else (first,)


def _check_texts(name: str, texts: Any, *, first: int = 0) -> None:
    """Check that ``texts`` is a list of strings; ``name`` tells what each one is, ``first`` is the first's index."""
    if isinstance(texts, str | bytes) or not hasattr(texts, "__getitem__"):
        streams = name == "text" and not isinstance(texts, str | bytes) and isinstance(texts, Iterable)
        advice = ": use translate_iter for a stream of texts" if streams else ""
        raise UsageError(f"expected a list of texts, one {name} each, but got {type(texts).__name__}{advice}")
    for number, text in enumerate(texts, start=first + 1):
        _check_text(f"{name} {number}", text)


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise UsageError(f"{name} is {type(text).__name__}, but must be str")
