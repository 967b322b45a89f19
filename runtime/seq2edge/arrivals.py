"""Lines in groups as they arrive: one when they come slowly, many when they come fast; needs nothing."""

from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Event, Thread


@dataclass(frozen=True)
class _End:
    """Stands behind the last line."""

    error: BaseException | None  # what ended the lines, if not their end


def arriving(lines: Iterator[str], most: int) -> Generator[list[str], None, None]:
    """Wait for a line and give it together with those that have arrived since, ``most`` at a time.

    A thread reads ahead, by at most ``most`` lines. What it raises is raised here, after the lines before it. It may
    wait for a line that never comes: it is a daemon, so that the program can end all the same.
    """
    waiting: Queue[str | _End] = Queue(maxsize=most)
    closed = Event()
    Thread(target=_read, args=(lines, waiting, closed), daemon=True, name="arriving").start()
    end: _End | None = None
    try:
        while end is None:
            group, end = _take(waiting, most)
            if group:
                yield group
        if end.error is not None:
            raise end.error
    finally:
        closed.set()
        _empty(waiting)  # the thread may wait for room


def _read(lines: Iterator[str], waiting: "Queue[str | _End]", closed: Event) -> None:
    error: BaseException | None = None
    try:
        for line in lines:
            waiting.put(line)
            if closed.is_set():
                return
    except BaseException as raised:
        error = raised
    waiting.put(_End(error))


def _take(waiting: "Queue[str | _End]", most: int) -> tuple[list[str], _End | None]:
    """Everything that is there, at least one line or the end."""
    group: list[str] = []
    item = waiting.get()
    while not isinstance(item, _End):
        group.append(item)
        if len(group) == most or waiting.empty():
            return group, None
        item = waiting.get_nowait()
    return group, item


def _empty(waiting: "Queue[str | _End]") -> None:
    with suppress(Empty):
        while True:
            waiting.get_nowait()
