"""Workers do what one thread would do, refuse when closed, and never wait for themselves."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from seq2edge.errors import UsageError
from seq2edge.search.batch_decode import Workers


@pytest.mark.parametrize("count", [1, 3])
def test_results_are_in_order_and_errors_come_through(count: int) -> None:
    workers = Workers(count)
    assert workers.map(lambda number: 10 // number, [1, 2, 5]) == [10, 5, 2]
    with pytest.raises(ZeroDivisionError):
        workers.map(lambda number: 10 // number, [1, 0, 5])
    workers.close()


def test_work_on_a_worker_may_ask_for_more_work() -> None:
    workers = Workers(2)

    def nested(number: int) -> int:
        return sum(workers.map(lambda other: number * other, [1, 2, 3]))

    assert workers.map(nested, list(range(8))) == [6 * number for number in range(8)]
    workers.close()


@pytest.mark.parametrize("count", [1, 2])
def test_what_comes_after_the_end_is_refused(count: int) -> None:
    workers = Workers(count)
    workers.close()
    workers.close()
    with pytest.raises(UsageError, match="is closed"):
        workers.map(str, [1])


def test_what_was_begun_is_finished() -> None:
    workers, begun, go = Workers(2), threading.Event(), threading.Event()

    def wait(number: int) -> int:
        begun.set()
        go.wait()
        return number

    with ThreadPoolExecutor(2) as others:
        results = others.submit(workers.map, wait, list(range(20)))
        begun.wait()
        closing = others.submit(workers.close)
        go.set()
        assert results.result() == list(range(20))
        closing.result()


def test_work_may_close_its_own_workers() -> None:
    workers = Workers(2)
    workers.map(lambda _: workers.close(), [1])
    with pytest.raises(UsageError):
        workers.check_open()
