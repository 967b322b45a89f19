"""Merge the work of many requests into batches.

Whatever arrives while a batch is translated forms the next one, so there is no timer. An idle worker begins when the
event loop has read all requests that have arrived, else it would take the first of them alone. Idle workers share what
waits. Each waiting request gives one segment in turn, so that a long text does not hold up a short one. Only requests
of one translator with equal options share a batch; batch invariance makes the answers independent of who shares it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from threading import Condition, Lock, Thread

from seq2edge.errors import Seq2EdgeError
from seq2edge.results import Translation
from seq2edge.serve.settings import ApiError
from seq2edge.text.segments import GrowingText
from seq2edge.translator import SplitTexts, StablePieces, Translator

GATHERED = 64  # requests that are not worth waiting for more
TURNS = 6  # of the event loop, in which a request that was received becomes a job
Observe = Callable[[int], object]
Part = tuple["TranslationJob", int]


class TranslationJob:
    """The segments of one request, which wait for their turn."""

    def __init__(self, translator: Translator, texts: SplitTexts, *, growing: bool = False) -> None:
        self.translator, self.texts = translator, texts
        self.waiting = deque(range(len(texts.segments)))
        self.cancelled = False
        self.growing = growing  # its client wants to see the text grow
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[str | BaseException | None] = asyncio.Queue()
        self._so_far, self._added = GrowingText(), 0
        self._advancing = Lock()  # several workers may have segments of one job

    @property
    def key(self) -> object:
        """Equal for jobs that may share a batch; samples without a seed differ from call to call."""
        generation = self.texts.call.generation
        alone = generation.do_sample and generation.seed is None
        return self if alone else (id(self.translator), self.texts.call)

    async def texts_so_far(self) -> AsyncGenerator[str, None]:
        """Yield the text whenever it has grown, and end when all is translated."""
        while (news := await self._news.get()) is not None:
            if isinstance(news, BaseException):
                raise news
            yield news

    def show(self, partial: str, index: int) -> None:
        """Tell the client the text so far, from the thread of a worker; what comes after a gap has to wait."""
        with self._advancing:
            if index == self._added:
                self._tell(self._so_far.joined(partial, self.texts.segments[index].space))

    def advance(self) -> None:
        """Tell the client what is translated up to the first gap, or that all is."""
        with self._advancing:
            before = self._added
            while self.growing and self._added in self.texts.found:
                self._so_far.add(self.texts.found[self._added][0].text, self.texts.segments[self._added].space)
                self._added += 1
            if self._added > before:
                self._tell(self._so_far.joined("", ""))
            if self.texts.complete:
                self._tell(None)

    def fail(self, error: BaseException) -> None:
        self.cancelled = True
        self._tell(error)

    def _tell(self, news: str | BaseException | None) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._news.put_nowait, news)


class Batcher:
    """Threads that translate the segments of all requests."""

    def __init__(self, workers: int = 1, *, max_waiting: int = 512, merge: bool = True, observe: Observe = id) -> None:
        self.max_waiting, self.merge, self._observe = max_waiting, merge, observe
        self._jobs: deque[TranslationJob] = deque()  # the one that was served least recently first
        self._changed, self._closed = Condition(), False
        self._idle = 0  # workers that wait for a batch
        self._gathering = False  # whether the event loop is still reading what has arrived
        self._threads = [Thread(target=self._work, name=f"batch-{number}", daemon=True) for number in range(workers)]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """The number of requests of which a segment waits."""
        return len(self._jobs)

    async def translate(self, translator: Translator, texts: SplitTexts) -> list[Translation]:
        """Translate the texts of a request; a call that is cancelled gives up its turn."""
        async for _ in self._run(TranslationJob(translator, texts)):
            pass
        return texts.translations()

    async def stream(self, translator: Translator, texts: SplitTexts) -> AsyncGenerator[str, None]:
        """Yield the pieces of the translation of one text, as soon as they cannot change any more."""
        pieces = StablePieces()
        async for text in self._run(TranslationJob(translator, texts, growing=True)):
            if piece := pieces.next(text):
                yield piece
        if rest := pieces.rest(texts.translations()[0].text):
            yield rest

    async def _run(self, job: TranslationJob) -> AsyncGenerator[str, None]:
        if job.texts.complete:  # nothing visible to translate
            return
        self._put(job)
        try:
            async for text in job.texts_so_far():
                yield text
        finally:
            job.cancelled = True

    def close(self) -> None:
        """Finish the batches that were begun, and stop; what still waits is dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _put(self, job: TranslationJob) -> None:
        with self._changed:
            if len(self._jobs) >= self.max_waiting:
                raise ApiError(503, f"{len(self._jobs)} requests are waiting already; try again later", retry_after=1)
            self._jobs.append(job)
            if not self._gathering:
                self._gathering = True
                self._gather(len(self._jobs), TURNS)

    def _gather(self, known: int, turns: int) -> None:
        """Let the workers begin when no job was added for some turns of the event loop."""
        count = len(self._jobs)
        if (count == known and turns == 0) or count >= GATHERED:
            with self._changed:
                self._gathering = False
                self._changed.notify_all()
            return
        turns = turns - 1 if count == known else TURNS
        asyncio.get_running_loop().call_soon(self._gather, count, turns)

    def _work(self) -> None:
        while parts := self._take():
            self._observe(len(parts))
            try:
                self._translate(parts)
            except Exception as error:
                for job in {job for job, _ in parts}:
                    job.fail(error if isinstance(error, Seq2EdgeError) else _without_text(error))

    def _translate(self, parts: list[Part]) -> None:
        (job, index), translator = parts[0], parts[0][0].translator
        if len(parts) == 1 and job.growing:
            for text in translator.stream_segment(job.texts, index):
                if job.cancelled:
                    return
                job.show(text, index)
            job.advance()
            return
        for done in translator.translate_segments([(job.texts, index) for job, index in parts]):
            for job in {parts[one][0] for one in done}:
                job.advance()

    def _take(self) -> list[Part]:
        """Wait for jobs, and take a batch of segments in turn: no more than are translated fastest at once."""
        with self._changed:
            self._idle += 1
            while not self._closed:
                while self._jobs and self._jobs[0].cancelled:
                    self._jobs.popleft()
                if self._jobs and not self._gathering:
                    parts = self._next_batch(self._jobs[0])
                    self._idle -= 1
                    return parts
                self._changed.wait()
        return []

    def _next_batch(self, first: TranslationJob) -> list[Part]:
        generation = first.texts.call.generation
        rows = max(generation.num_beams, generation.num_return_sequences)
        waiting = sum(len(job.waiting) for job in self._jobs)
        most = max(1, min(first.translator.engine.most_rows // rows, -(-waiting // self._idle)))
        if first.growing and len(self._jobs) == 1:
            most = 1  # nobody else waits: let the client see each word
        parts: list[Part] = []
        while len(parts) < most and (taken := [*self._one_of_each(first, most - len(parts))]):
            parts += taken
        return parts

    def _one_of_each(self, first: TranslationJob, most: int) -> Iterator[Part]:
        """Take a segment of each job that may share a batch with the first; those with more go to the end."""
        key, again = first.key, []
        for _ in range(len(self._jobs)):
            job = self._jobs.popleft()
            if most > 0 and not job.cancelled and (job is first or (self.merge and job.key == key)):
                yield job, job.waiting.popleft()
                most -= 1
                if job.waiting:
                    again.append(job)
            elif not job.cancelled:
                self._jobs.append(job)
        self._jobs.extend(again)


def _without_text(error: Exception) -> RuntimeError:
    """Return an error that names the kind of another alone, whose message may have a user's text."""
    found = RuntimeError(type(error).__name__)
    found.__traceback__ = error.__traceback__
    return found
