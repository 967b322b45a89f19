"""A translator under load: many threads, many calls, many bundles, a fork; nothing changes and nothing leaks.

SEQ2EDGE_TRUST=full makes it 10 minutes, 50,000 calls and 200 bundles.
"""

import gc
import os
import resource
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from seq2edge import Translator

pytestmark = pytest.mark.trust
SENTENCE = "the old man a small dog our teacher nobody sees finds paints forgets carries a red house two green apples"
WORDS = SENTENCE.split()
OPTIONS: tuple[dict[str, object], ...] = (
    {"num_beams": 1},
    {"num_beams": 4},
    {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.6},
    {"do_sample": True, "num_beams": 1, "seed": 7, "top_k": 20},
    {"num_beams": 2, "no_repeat_ngram_size": 2, "max_new_tokens": 9},
)
THREADS = 8
GROWTH = 1.05


def text_of(chance: Random, longest: int = 25) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, longest)))


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def answers(translator: Translator, texts: list[str], options: dict[str, object]) -> list[object]:
    found = translator.translate(texts, **{"max_new_tokens": 12, **options})
    return [(one.text, one.tokens, [other.tokens for other in one.alternatives]) for one in found]


def test_threads_with_mixed_options_answer_as_one_thread_does(bundles: Path, full: bool) -> None:
    chance = Random(1)
    tasks = [([text_of(chance) for _ in range(chance.randint(1, 6))], chance.choice(OPTIONS)) for _ in range(60)]
    with Translator(bundles / "ort-int8", threads=1) as alone:
        wanted = [answers(alone, *task) for task in tasks]
    until, done = time.monotonic() + (600 if full else 10), []
    with Translator(bundles / "ort-int8", threads=1, workers=2) as translator:

        def work(number: int) -> int:
            own, count = Random(number), 0
            while time.monotonic() < until:
                place = own.randrange(len(tasks))
                assert answers(translator, *tasks[place]) == wanted[place], tasks[place]
                count += 1
            return count

        with ThreadPoolExecutor(THREADS) as pool:
            done = list(pool.map(work, range(THREADS)))
    print(f"\n{sum(done):,} calls from {THREADS} threads, all equal to those of one thread")
    assert min(done) > 0


@pytest.mark.parametrize("name", ["ort-fp32", "portable-fp32"])
def test_memory_stays_flat_over_calls_of_random_lengths(bundles: Path, full: bool, name: str) -> None:
    calls, warm_up = (50_000, 5_000) if full else (1_500, 500)
    chance, taken = Random(2), []
    with Translator(bundles / name, threads=1) as translator:
        for number in range(warm_up + calls):
            texts = [text_of(chance, 50) for _ in range(chance.randint(1, 3))]
            translator.translate(texts, num_beams=chance.choice((1, 2, 4)), max_new_tokens=chance.randint(1, 10))
            if number >= warm_up and number % (calls // 50) == 0:
                taken.append(memory())
    first, last = statistics.median(taken[:10]), statistics.median(taken[-10:])
    print(f"\n{name}: {calls:,} calls, {first / 1e6:.1f} MB after the warm-up, {last / 1e6:.1f} MB at the end")
    assert last <= GROWTH * first


def test_bundles_that_are_loaded_and_closed_leave_nothing(bundles: Path, full: bool) -> None:
    taken, open_files, threads = [], [], []
    for number in range(200 if full else 60):
        with Translator(bundles / ("ort-fp32", "ort-int8", "portable-fp32")[number % 3], threads=2, workers=2) as one:
            one.translate(["nobody sees a red house", "the old man"], max_new_tokens=4)
            one.score(["nobody"], ["a red house"])
        del one
        gc.collect()
        taken.append(memory())
        open_files.append(len(list(Path("/proc/self/fd").iterdir())))
        threads.append(len(list(Path("/proc/self/task").iterdir())))
    warm = len(taken) // 3
    print(
        f"\n{len(taken)} bundles: {taken[warm] / 1e6:.1f} MB after a third of them, {taken[-1] / 1e6:.1f} MB at the end"
    )
    assert taken[-1] <= GROWTH * taken[warm]
    assert open_files[-1] <= open_files[warm]
    assert threads[-1] <= threads[warm]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_fork_after_loading_works_or_says_that_it_cannot(bundles: Path, workers: int) -> None:
    with Translator(bundles / "ort-fp32", threads=1, workers=workers) as translator:
        wanted = translator.translate(["nobody sees a red house"])[0].text
        child = os.fork()
        if child == 0:
            os._exit(_in_the_fork(translator, wanted))
        assert _status_of(child, seconds=60) == 0


def _in_the_fork(translator: Translator, wanted: str) -> int:
    from seq2edge.errors import UsageError

    try:
        return 0 if translator.translate(["nobody sees a red house"])[0].text == wanted else 3
    except UsageError as error:
        return 0 if "fork" in str(error) else 4
    except BaseException:
        return 5


def _status_of(child: int, *, seconds: int) -> int:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the fork hangs")
