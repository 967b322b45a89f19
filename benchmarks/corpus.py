"""Measure seq2edge corpus beside seq2edge translate, with one and two workers, locally and with Ray.

    python benchmarks/corpus.py SENTENCES [--lines 4000] [-m BUNDLE] [--rounds 2]

All ways translate the same lines greedily, in turns. The rate of Ray is that between its first and its last chunk: it
takes some seconds to start, which a large corpus does not notice. The second table says how long a corpus of a billion
rows takes on more cores, from the measured parts alone: the rate of a worker, the time until the first chunk, and the
bytes of a row and of the bundle.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seq2edge import Translator
from seq2edge.bench.environment import describe_environment
from seq2edge.corpus import worker
from seq2edge.corpus.ray_engine import RayEngine, connected
from seq2edge.corpus.run import CHUNK_ROWS, RAY_CHUNK_ROWS, Engine, local_engine, plan, run

CORPUS_ROWS = 1_000_000_000
NODE_CORES = 16  # of a node in the model of cost; it gets the bundle once


@dataclass(frozen=True)
class Measured:
    rate: float  # rows per second, without the start
    start: float  # seconds until the first chunk was done, without the time of a chunk
    written: int  # bytes of the output


def by_translate(source: Path, target: Path, bundle: str | None, workers: int) -> Measured:
    with Translator(bundle, threads=1, workers=workers) as translator:
        started = time.perf_counter()
        summary = translator.translate_file(source, target / "out.txt", num_beams=1)
        rate = summary.texts / (time.perf_counter() - started)
    return Measured(rate, 0.0, (target / "out.txt").stat().st_size)


def by_corpus(source: Path, target: Path, bundle: str | None, workers: int, engine: Engine) -> Measured:
    times: list[tuple[float, int]] = []
    local = engine is local_engine
    inside, rows = (workers, CHUNK_ROWS) if local else (1, RAY_CHUNK_ROWS)
    job = plan(str(source), str(target / "out"), worker(bundle, workers=inside, num_beams=1), chunk_rows=rows)
    _ = job.worker.translator  # opened before the time is taken, as above
    started = time.perf_counter()
    run(job, engine, observe=lambda done, tokens: times.append((time.perf_counter(), done)))
    (first, before), (last, done) = (times[0] if local else times[1]), times[-1]
    rate = (done - before) / (last - first)
    written = (target / "out" / source.name).stat().st_size
    return Measured(rate, 0.0 if local else first - started - before / rate * workers, written)


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
        found = measure(source, Path(folder), given.model, given.rounds)
        print_rates(found)
        read, bundle = source.stat().st_size / given.lines, bundle_bytes(given.model)
        print_model(found["corpus --engine ray, 2 workers"], read, given.lines, bundle)
    print(f"\n{describe_environment()}")


def measure(source: Path, folder: Path, bundle: str | None, rounds: int) -> dict[str, Measured]:
    """Return the best round of each way."""
    ways: dict[str, Callable[[Path], Measured]] = {
        "translate, 2 workers": lambda out: by_translate(source, out, bundle, 2),
        "corpus --engine local, 1 worker": lambda out: by_corpus(source, out, bundle, 1, local_engine),
        "corpus --engine local, 2 workers": lambda out: by_corpus(source, out, bundle, 2, local_engine),
        "corpus --engine ray, 2 workers": lambda out: by_corpus(source, out, bundle, 2, RayEngine(concurrency=2)),
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


def bundle_bytes(bundle: str | None) -> int:
    with Translator(bundle, threads=1) as translator:
        return sum(path.stat().st_size for path in translator.bundle.folder.iterdir())


def print_rates(found: dict[str, Measured]) -> None:
    base = found["translate, 2 workers"].rate
    print("| | rows/s | relative to translate |\n|---|---|---|")
    for way, measured in found.items():
        print(f"| {way} | {measured.rate:.0f} | {measured.rate / base:.2f} |")


def print_model(ray: Measured, read: float, rows: int, bundle: int) -> None:
    """Print what a corpus costs on more cores; ``read`` is the bytes of a row of the input."""
    each, moved = ray.rate / 2, read + ray.written / rows
    print(f"\nRay takes {ray.start:.1f} s until its workers translate. A row has {moved:.0f} bytes, in and out.\n")
    print("| cores | hours for a billion rows | MB/s read and written | MB of bundle sent |\n|---|---|---|---|")
    for cores in (10, 100, 1000):
        seconds = ray.start + CORPUS_ROWS / (each * cores)
        sent = bundle * -(-cores // NODE_CORES)
        print(f"| {cores:,} | {seconds / 3600:.1f} | {CORPUS_ROWS * moved / seconds / 1e6:.1f} | {sent / 1e6:,.0f} |")


if __name__ == "__main__":
    main()
