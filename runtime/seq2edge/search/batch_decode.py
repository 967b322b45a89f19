"""Decode any number of sentences with any engine, in batches of similar length."""

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Event, Lock, local
from typing import TYPE_CHECKING, Protocol, TypeVar

from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import UsageError
from seq2edge.search import BatchContext, DecoderState, Hook, Hypothesis, search

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

A = TypeVar("A")
B = TypeVar("B")
BATCH_TOKENS = 1024
LAST_BATCH_TOKENS = 128  # fewer are not worth a batch of their own


class Engine(Protocol):
    """A model that encodes sentences and returns the state to decode them with."""

    def start(self, sources: list[list[int]]) -> DecoderState: ...


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """What to decode: the source ids, and what the output has to begin with, without the start token."""

    source: list[int]
    prefix: tuple[int, ...] = ()
    sentence_id: int = 0  # identifies the text to sampling and to the hook
    segment_id: int = 0  # identifies the segment of the text to sampling


class Workers:
    """Threads that decode batches for any number of callers; a single worker is the caller's own thread."""

    def __init__(self, count: int, *, threads: int = 1) -> None:
        """``threads`` are those of onnxruntime; a forked process loses them as well as the workers."""
        self.count = count
        self._process = os.getpid()
        self._survives_fork = count == threads == 1
        self._here = local()
        self._lock = Lock()
        self._closed = Event()
        self.context: Callable[[], AbstractContextManager[object]] = nullcontext
        self._pool = self._open_pool(count) if count > 1 else None

    def within(self, context: Callable[[], AbstractContextManager[object]]) -> "Workers":
        """Return the same workers, whose threads enter a context for each item that they work on."""
        workers = copy.copy(self)
        workers.context = context
        return workers

    def map(self, work: Callable[[A], B], items: Sequence[A]) -> list[B]:
        """Apply a function to each item and return the results in order.

        A call from a worker's own thread, as when a hook calls the translator, runs right there: a worker that waited
        for others might wait for itself.
        """
        if self._pool is None or self._is_worker:
            self.check_open()
            with self.context():
                return [work(item) for item in items]
        futures = self._submit(self._pool, work, items)
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:  # those behind one that failed
                future.cancel()

    def completed(self, work: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        """Apply a function to each item and yield the results as they are completed, in any order."""
        if self._pool is None or self._is_worker:
            self.check_open()
            yield from (self._work(work, item) for item in items)
            return
        from concurrent.futures import as_completed

        futures = self._submit(self._pool, work, items)
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:  # those that are not wanted any more
                future.cancel()

    def close(self) -> None:
        """Finish the work that was begun, and refuse any other."""
        with self._lock:
            self._closed.set()
        if self._pool is not None and os.getpid() == self._process:
            self._pool.shutdown(wait=not self._is_worker)

    def check_open(self) -> None:
        if self._closed.is_set():
            raise UsageError("the translator is closed; create another one")
        if not self._survives_fork and os.getpid() != self._process:
            raise UsageError(
                "the process was forked after the translator was created, and its threads were not: create the "
                "translator in the forked process, or with threads=1 and workers=1"
            )

    def _open_pool(self, count: int) -> "ThreadPoolExecutor":
        from concurrent.futures import ThreadPoolExecutor  # which a single worker does not need

        return ThreadPoolExecutor(count, "seq2edge", self._mark_as_worker)

    def _submit(self, pool: "ThreadPoolExecutor", work: Callable[[A], B], items: Sequence[A]) -> "list[Future[B]]":
        with self._lock:  # all of it, or nothing
            self.check_open()
            return [pool.submit(self._work, work, item) for item in items]

    def _work(self, work: Callable[[A], B], item: A) -> B:
        with self.context():
            return work(item)

    def _mark_as_worker(self) -> None:
        self._here.is_worker = True

    @property
    def _is_worker(self) -> bool:
        return getattr(self._here, "is_worker", False)


def decode(
    engine: Engine,
    sources: Sequence[list[int]],
    options: GenerationOptions,
    *,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
    most_rows: int | None = None,
) -> list[list[Hypothesis]]:
    """Search for the translations of each source; the results are in order."""
    sentences = [Sentence(source=source, sentence_id=index) for index, source in enumerate(sources)]
    results: list[list[Hypothesis]] = [[]] * len(sentences)
    for batch in decode_batches(
        engine, sentences, options, batch_tokens=batch_tokens, batch_size=batch_size, most_rows=most_rows
    ):
        for index, hypotheses in batch.items():
            results[index] = hypotheses
    return results


def decode_batches(
    engine: Engine,
    sentences: Sequence[Sentence],
    options: GenerationOptions,
    *,
    hook: Hook | None = None,
    workers: Workers | None = None,
    longest: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
    most_rows: int | None = None,
) -> Iterator[dict[int, list[Hypothesis]]]:
    """Search for the translations of sentences with prefixes and a hook, several batches at a time.

    Yield the hypotheses of each batch, by the indices of its sentences, when it is decoded.

    ``longest`` is the maximum number of tokens that the model generates, including the prefix. ``most_rows`` limits
    the rows of a batch, whatever ``batch_size`` allows: more may be slower.
    """

    def run(batch: list[int]) -> dict[int, list[Hypothesis]]:
        found = _decode_batch(engine, [sentences[index] for index in batch], options, hook, longest)
        return dict(zip(batch, found, strict=True))

    if most_rows is not None:
        limit = max(1, most_rows // max(options.num_beams, options.num_return_sequences))
        batch_size = limit if batch_size is None else min(batch_size, limit)
    batches = _batches(sentences, batch_tokens, batch_size, workers.count if workers else 1)
    return workers.completed(run, batches) if workers else map(run, batches)


def _decode_batch(
    engine: Engine, sentences: list[Sentence], options: GenerationOptions, hook: Hook | None, longest: int | None
) -> list[list[Hypothesis]]:
    state = engine.start([sentence.source for sentence in sentences])
    prefixes = [[options.decoder_start_token_id, *sentence.prefix] for sentence in sentences]
    if longest is not None:
        options = options.within(1 + longest, prefix_length=len(prefixes[0]))
    context = BatchContext(
        sentence_ids=[sentence.sentence_id for sentence in sentences],
        segment_ids=[sentence.segment_id for sentence in sentences],
        hook=hook,
    )
    return search(state, prefixes, options, context)


def _batches(sentences: Sequence[Sentence], batch_tokens: int, batch_size: int | None, workers: int) -> list[list[int]]:
    """Return the indices of the sentences in each batch; the prefixes in a batch have one length."""
    by_prefix: dict[int, list[int]] = {}
    for index, sentence in enumerate(sentences):
        by_prefix.setdefault(len(sentence.prefix), []).append(index)
    return [
        [indices[one] for one in batch]
        for indices in by_prefix.values()
        for batch in group(
            [len(sentences[index].source) for index in indices],
            batch_tokens=batch_tokens,
            batch_size=batch_size,
            workers=workers,
        )
    ]


def group(
    lengths: Sequence[int], *, batch_tokens: int, batch_size: int | None = None, workers: int = 1
) -> list[list[int]]:
    """Return the indices of the sentences in each batch, longest first, so that little of a batch is padding.

    A batch has at most ``batch_size`` sentences, and at most ``batch_tokens`` tokens including padding; a longer
    sentence has a batch of its own. The last batches for several workers become smaller and smaller, so that all of
    them are busy until the end.
    """
    batches: list[list[int]] = []
    left, limit = sum(lengths), batch_tokens
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if not batches or not _has_space(lengths[batches[-1][0]], len(batches[-1]) + 1, limit, batch_size):
            batches.append([])
            if workers > 1:
                limit = min(batch_tokens, max(LAST_BATCH_TOKENS, left // (2 * workers)))
        batches[-1].append(index)
        left -= lengths[index]
    return batches


def _has_space(longest: int, rows: int, batch_tokens: int, batch_size: int | None) -> bool:
    return longest * rows <= batch_tokens and (batch_size is None or rows <= batch_size)
