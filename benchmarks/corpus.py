"""Measure seq2edge corpus beside seq2edge translate, with one and two workers, locally and with Ray.

    python benchmarks/corpus.py SENTENCES [--lines 4000] [-m BUNDLE] [--rounds 2]

All ways translate the same lines greedily, in turns. The rate of Ray is that between its first and its last chunk: it
takes some seconds to start, which a large corpus does not notice. The second table says how long a corpus of a billion
rows takes on more cores, from the measured parts alone: the rate of a worker, and the time until the first chunk.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from seq2edge import Translator
from seq2edge.bench.environment import describe_environment
from seq2edge.corpus import worker
from seq2edge.corpus.ray_engine import RayEngine, connected
from seq2edge.corpus.run import Engine, local_engine, plan, run

CORPUS_ROWS = 1_000_000_000


@dataclass(frozen=True)
class Measured:
    rate: float  # rows per second, without the start
    start: float  # seconds until the first chunk was done, without the time of a chunk


def by_translate(source: Path, target: Path, bundle: str | None, workers: int) -> Measured:
    with Translator(bundle, threads=1, workers=workers) as translator:
        started = time.perf_counter()
        summary = translator.translate_file(source, target / "out.txt", num_beams=1)
        return Measured(summary.texts / (time.perf_counter() - started), 0.0)


def by_corpus(source: Path, target: Path, bundle: str | None, workers: int, engine: Engine, rows: int) -> Measured:
    times: list[tuple[float, int]] = []
    inside = workers if engine is local_engine else 1
    job = plan(str(source), str(target / "out"), worker(bundle, workers=inside, num_beams=1))
    _ = job.worker.translator  # opened before the time is taken, as above
    started = time.perf_counter()
    run(
        replace(job, chunk_rows=rows),
        engine,
        observe=lambda done, tokens: times.append((time.perf_counter(), done)),
    )
    (first, before), (last, done) = (times[0] if engine is local_engine else times[1]), times[-1]
    rate = (done - before) / (last - first)
    return Measured(rate, 0.0 if engine is local_engine else first - started - before / rate * workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--lines", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("-m", "--model")
    given = parser.parse_args()
    lines = given.sentences.read_text(encoding="utf-8").splitlines()
    lines = (lines * (given.lines // len(lines) + 1))[: given.lines]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "corpus.txt"
        source.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print_tables(measure(source, Path(folder), given.model, given.rounds))
    print(f"\n{describe_environment()}")


def measure(source: Path, folder: Path, bundle: str | None, rounds: int) -> dict[str, Measured]:
    """Return the best round of each way."""
    ways: dict[str, Callable[[Path], Measured]] = {
        "translate, 2 workers": lambda out: by_translate(source, out, bundle, 2),
        "corpus --engine local, 1 worker": lambda out: by_corpus(source, out, bundle, 1, local_engine, 1024),
        "corpus --engine local, 2 workers": lambda out: by_corpus(source, out, bundle, 2, local_engine, 1024),
        "corpus --engine ray, 2 workers": lambda out: by_corpus(source, out, bundle, 2, RayEngine(concurrency=2), 256),
    }
    best: dict[str, Measured] = {}
    with connected(None):
        for number in range(rounds):
            for way, call in ways.items():
                target = folder / f"{number} {way}"
                target.mkdir()
                found = call(target)
                if way not in best or found.rate > best[way].rate:
                    best[way] = found
    return best


def print_tables(found: dict[str, Measured]) -> None:
    base = found["translate, 2 workers"].rate
    print("| | rows/s | relative to translate |\n|---|---|---|")
    for way, measured in found.items():
        print(f"| {way} | {measured.rate:.0f} | {measured.rate / base:.2f} |")
    ray = found["corpus --engine ray, 2 workers"]
    print(f"\nRay takes {ray.start:.1f} s until its workers translate.\n")
    print("| cores | hours for a billion rows |\n|---|---|")
    for cores in (10, 100, 1000):
        print(f"| {cores:,} | {(ray.start + CORPUS_ROWS / (ray.rate / 2 * cores)) / 3600:.1f} |")


if __name__ == "__main__":
    main()
