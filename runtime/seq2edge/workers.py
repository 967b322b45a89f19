"""Several batches at the same time: a pool of threads that can be closed at any moment; needs nothing."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock, local
from typing import TypeVar

from seq2edge.errors import UsageError

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
