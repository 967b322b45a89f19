"""Run hostile cases in processes of their own and count how they end.

    python tests/fuzz/driver.py --cases 100000 [--target graphs ...] [--first 0]

A case is made from the name of its target and a number, so any of them can be run again:

    python tests/fuzz/driver.py --target graphs --only 4711

Good ends are one of our errors, or an answer. Everything else is a failure: another exception, also one that only the
last net of the export has caught ("unforeseen"), more than 2 s of a CPU, more than 1 GB of memory, a process that died
or hung, a program started, a connection opened, or a file written outside the folder of the case. The numbers of
failures are kept in build/fuzz/failures.txt.
"""

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
FAILURES = ROOT / "build" / "fuzz" / "failures.txt"
SECONDS, MEGABYTES = 2.0, 1000
GRAPH_MEGABYTES = "300"  # that each graph may take: set for the workers alone
HANGS = 30  # seconds on the clock, of a machine that may be busy
ADDRESSES = 24 * 2**30  # bytes that a worker can ask for at all: a net below what is measured
LONGEST_ERROR = 3000  # characters, which a person can still read
TOLD = 500  # cases between two lines of progress
WARM_UP = 12  # cases before those that count
REFUSED, FINE = "refused", "answered"
GOOD = (REFUSED, FINE)
FORBIDDEN = (
    "os.system",
    "subprocess.",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "socket.connect",
    "ctypes.dlopen",
    "pty.",
)
WRITING = os.O_WRONLY | os.O_RDWR

Case = Callable[[Random, Path], None]  # makes and runs one case in a folder of its own


@dataclass
class Outcome:
    """How one case ended."""

    target: str
    number: int
    end: str
    seconds: float = 0.0
    megabytes: float = 0.0
    detail: str = ""


@dataclass
class Count:
    """All ends of one target."""

    ends: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0  # of the slowest
    megabytes: float = 0.0  # of the largest
    clock: float = 0.0

    def add(self, outcome: Outcome) -> None:
        self.ends[outcome.end] += 1
        self.seconds = max(self.seconds, outcome.seconds)
        self.megabytes = max(self.megabytes, outcome.megabytes)


class Watch:
    """Notices, from inside the process, what no case may do."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.folder is None:
            return
        if event.startswith(FORBIDDEN):
            self.seen.append(f"{event} {arguments!r:.200}")
        elif event == "open" and isinstance(arguments[0], str | bytes) and self._writes(arguments):
            path = Path(os.fsdecode(arguments[0])).resolve()
            if not path.is_relative_to(self.folder) and not str(path).startswith(("/dev/", "/proc/self/")):
                self.seen.append(f"wrote {path}")

    @staticmethod
    def _writes(arguments: tuple[object, ...]) -> bool:
        mode, flags = arguments[1], arguments[2]
        return any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(int(str(flags)) & WRITING)


def run_case(case: Case, target: str, number: int, folder: Path, watch: Watch) -> Outcome:
    from seq2edge.errors import Seq2EdgeError, UnexpectedLoadError

    _forget_peak()
    before, started = _memory(), time.process_time()
    watch.seen, watch.folder = [], folder.resolve()
    detail = ""
    try:
        case(Random(f"{target} {number}"), folder)
        end = FINE
    except Seq2EdgeError as error:
        end, detail = REFUSED, str(error)
        if "\n" in detail or len(detail) > LONGEST_ERROR:
            end = "not one sentence"
        if isinstance(error, UnexpectedLoadError):
            end, detail = "unforeseen", traceback.format_exc(limit=-4)
    except Exception:
        end, detail = "another exception", traceback.format_exc(limit=-4)
    except BaseException as error:  # a panic of a library in Rust is none of Exception
        end, detail = "panic", repr(error)
    watch.folder = None
    seconds, megabytes = time.process_time() - started, (_peak() - before) / 1e6
    if watch.seen:
        end, detail = "escaped", "; ".join(watch.seen)
    elif end in GOOD and seconds > SECONDS:
        end = "too slow"
    elif end in GOOD and megabytes > MEGABYTES:
        end = "too large"
    return Outcome(target, number, end, seconds, megabytes, detail)


def work(target: str, link: Connection) -> None:
    """What a worker does: cases by their numbers, until there are no more."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ.setdefault("SEQ2EDGE_MEMORY_LIMIT", GRAPH_MEGABYTES)
    sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    os.dup2(sys.stderr.fileno(), 2)  # libraries write there what they are about to raise
    watch = Watch()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["TMPDIR"] = place  # packages are unpacked there
        tempfile.tempdir = place
        case = _case(target)
        for number in range(WARM_UP):  # what is imported only when it is needed
            with suppress(Exception):
                case(Random(f"warm-up {number}"), folder)
        link.send(None)
        for number in iter(link.recv, None):
            link.send(run_case(case, target, number, folder, watch))


def _case(target: str) -> Case:
    from targets import TARGETS

    return TARGETS[target]()


class Worker:
    """A process for the cases of one target; another one takes its place when it dies."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.link, other = context.Pipe()
        self.process = context.Process(target=work, args=(self.target, other))
        self.process.start()
        other.close()
        self.link.recv()  # it is ready

    def run(self, number: int) -> Outcome:
        self.link.send(number)
        try:
            if self.link.poll(HANGS):
                outcome: Outcome = self.link.recv()
                return outcome
            end, detail = "hung", f"no end after {HANGS} s"
        except (EOFError, ConnectionResetError):
            self.process.join()
            end, detail = "crashed", f"exit code {self.process.exitcode}"
        self.process.kill()
        self.process.join()
        self._start()
        return Outcome(self.target, number, end, detail=detail)

    def close(self) -> None:
        self.link.send(None)
        self.process.join(10)
        self.process.kill()


def run_target(target: str, numbers: range) -> Iterator[Outcome]:
    from material import material

    material()  # here, where an error can be seen
    worker = Worker(target)
    try:
        for number in numbers:
            yield worker.run(number)
    finally:
        worker.close()


def fuzz(shares: dict[str, int], *, first: int = 0, say: Callable[[str], None] = lambda _: None) -> dict[str, Count]:
    """So many cases of each target."""
    counts: dict[str, Count] = {}
    for target, cases in shares.items():
        count, started = counts.setdefault(target, Count()), time.perf_counter()
        for outcome in run_target(target, range(first, first + cases)):
            count.add(outcome)
            if outcome.end not in GOOD:
                _keep(outcome)
                say(f"{target} {outcome.number}: {outcome.end}: {outcome.detail}")
            if sum(count.ends.values()) % TOLD == 0:
                say(f"{target}: {sum(count.ends.values()):,} of {cases:,}")
        count.clock = time.perf_counter() - started
        say(describe(target, count))
    return counts


def describe(target: str, count: Count) -> str:
    ends = ", ".join(f"{number:,} {end}" for end, number in count.ends.most_common())
    return (
        f"{target}: {sum(count.ends.values()):,} cases in {count.clock:,.0f} s: {ends}; slowest {count.seconds:.2f} s, "
        f"largest {count.megabytes:.0f} MB"
    )


def _keep(outcome: Outcome) -> None:
    FAILURES.parent.mkdir(parents=True, exist_ok=True)
    with FAILURES.open("a", encoding="utf-8") as file:
        file.write(json.dumps([outcome.target, outcome.number, outcome.end, outcome.detail]) + "\n")


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    from targets import SHARES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--target", action="append", choices=sorted(SHARES))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    wanted = parser.parse_args()
    targets = {name: share for name, share in SHARES.items() if not wanted.target or name in wanted.target}
    if wanted.only is not None:
        for target in targets:
            for outcome in run_target(target, range(wanted.only, wanted.only + 1)):
                print(outcome)
        return
    total = sum(targets.values())
    shares = {name: max(1, wanted.cases * share // total) for name, share in targets.items()}
    counts = fuzz(shares, first=wanted.first, say=partial(print, flush=True))
    ends = sum((count.ends for count in counts.values()), Counter[str]())
    clock = sum(count.clock for count in counts.values())
    bad = sum(ends.values()) - sum(ends[end] for end in GOOD)
    print(f"{sum(ends.values()):,} cases in {clock / 60:.1f} minutes: {dict(ends)}; {bad} failures")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
