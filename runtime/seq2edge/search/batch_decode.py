"""Decode any number of sentences with any engine: batches in, hypotheses out.

Group sentences of like length, so that little of a batch is padding.

Several batches at the same time: a pool of threads that can be closed at any moment.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock, local
from typing import Protocol, TypeVar

from seq2edge.config.generation import GenerationOptions
from seq2edge.errors import UsageError
from seq2edge.search import Hook, Hypothesis, Step, search


def group(lengths: Sequence[int], *, batch_tokens: int, batch_size: int | None = None) -> list[list[int]]:
    """Places of the sentences in each batch, longest first.

    A batch has at most ``batch_size`` sentences, and these times the longest of them make at most ``batch_tokens``;
    a sentence longer than that is alone.
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    batches: list[list[int]] = []
    for place in order:
        if not batches or not _fits(lengths[batches[-1][0]], len(batches[-1]) + 1, batch_tokens, batch_size):
            batches.append([])
        batches[-1].append(place)
    return batches


def _fits(longest: int, rows: int, batch_tokens: int, batch_size: int | None) -> bool:
    return longest * rows <= batch_tokens and (batch_size is None or rows <= batch_size)


A = TypeVar("A")
B = TypeVar("B")


class Workers:
    """Threads that work for any number of callers; one worker alone is the caller's own thread."""

    def __init__(self, count: int, *, threads: int = 1) -> None:
        """``threads`` are those of onnxruntime, which a fork of the process loses too."""
        self._process = os.getpid()
        self._survives_fork = count == threads == 1
        self._here = local()
        self._lock = Lock()
        self._closed = False
        self._pool = ThreadPoolExecutor(count, "seq2edge", self._mark_as_worker) if count > 1 else None

    def map(self, work: Callable[[A], B], items: Sequence[A]) -> list[B]:
        """What becomes of each item, in order.

        On a worker's own thread, as when a hook calls the translator, all is done right there: a worker that waited for
        others might wait for itself.
        """
        if self._pool is None or self._is_worker:
            self.check_open()
            return [work(item) for item in items]
        futures = self._submit(self._pool, work, items)
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:  # those behind one that failed
                future.cancel()

    def close(self) -> None:
        """Finish what was begun, and refuse what comes later."""
        with self._lock:
            self._closed = True
        if self._pool is not None and os.getpid() == self._process:
            self._pool.shutdown(wait=not self._is_worker)

    def check_open(self) -> None:
        if self._closed:
            raise UsageError("the translator is closed; make another one")
        if not self._survives_fork and os.getpid() != self._process:
            raise UsageError(
                "the process was forked after the translator was loaded, and its threads stayed behind: make the "
                "translator in the fork, or with threads=1 and workers=1"
            )

    def _submit(self, pool: ThreadPoolExecutor, work: Callable[[A], B], items: Sequence[A]) -> list[Future[B]]:
        with self._lock:  # all of it, or nothing
            self.check_open()
            return [pool.submit(work, item) for item in items]

    def _mark_as_worker(self) -> None:
        self._here.is_worker = True

    @property
    def _is_worker(self) -> bool:
        return getattr(self._here, "is_worker", False)


BATCH_TOKENS = 1024


class Engine(Protocol):
    """A model that can encode sentences and then decode them step by step."""

    def start(self, sources: list[list[int]]) -> Step: ...


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """What to decode: the ids of a source, and what its output has to begin with, the start token not included."""

    source: list[int]
    prefix: tuple[int, ...] = ()
    number: int = 0  # of the text: what sampling and the hook know it by
    part: int = 0  # of the text, which draws its own samples


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
    sentences = [Sentence(source=source, number=number) for number, source in enumerate(sources)]
    return decode_sentences(
        engine, sentences, options, batch_tokens=batch_tokens, batch_size=batch_size, most_rows=most_rows
    )


def decode_sentences(
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
) -> list[list[Hypothesis]]:
    """The same with prefixes, a hook and several batches at a time; sentences of like length share a batch.

    ``longest`` is how many tokens the model makes at most, those of a prefix included. ``most_rows`` is how many rows
    of the search a batch has at most, whatever ``batch_size`` allows: more may be slower.
    """

    def run(batch: list[int]) -> list[list[Hypothesis]]:
        return _decode_batch(engine, [sentences[place] for place in batch], options, hook, longest)

    if most_rows is not None:
        fitting = max(1, most_rows // max(options.num_beams, options.num_return_sequences))
        batch_size = fitting if batch_size is None else min(batch_size, fitting)
    batches = _batches(sentences, batch_tokens, batch_size)
    results: list[list[Hypothesis]] = [[]] * len(sentences)
    for batch, found in zip(batches, workers.map(run, batches) if workers else map(run, batches), strict=True):
        for place, hypotheses in zip(batch, found, strict=True):
            results[place] = hypotheses
    return results


def _decode_batch(
    engine: Engine, sentences: list[Sentence], options: GenerationOptions, hook: Hook | None, longest: int | None
) -> list[list[Hypothesis]]:
    step = engine.start([sentence.source for sentence in sentences])
    starts = [[options.decoder_start_token_id, *sentence.prefix] for sentence in sentences]
    if longest is not None:
        options = options.within(1 + longest, prefix_length=len(starts[0]))
    numbers, parts = [sentence.number for sentence in sentences], [sentence.part for sentence in sentences]
    return search(step, starts, options, numbers=numbers, parts=parts, hook=hook)


def _batches(sentences: Sequence[Sentence], batch_tokens: int, batch_size: int | None) -> list[list[int]]:
    """Places of the sentences in each batch; their prefixes have one length, as the search wants it."""
    places: dict[int, list[int]] = {}
    for place, sentence in enumerate(sentences):
        places.setdefault(len(sentence.prefix), []).append(place)
    return [
        [alike[number] for number in batch]
        for alike in places.values()
        for batch in group(
            [len(sentences[place].source) for place in alike], batch_tokens=batch_tokens, batch_size=batch_size
        )
    ]
