"""Translate a corpus in small chunks and print a line for each: a process for tests to kill."""

import argparse
import sys
from contextlib import nullcontext
from dataclasses import replace

from seq2edge.corpus import worker
from seq2edge.corpus.ray_engine import RayEngine, connected
from seq2edge.corpus.run import local_engine, plan, run
from seq2edge.errors import Seq2EdgeError


def report(rows: int, tokens: int) -> None:
    sys.stdout.write(f"rows {rows}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--address")
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--chunk-rows", type=int, default=2)
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args()
    job = replace(plan(given.source, given.target, worker(num_beams=1)), chunk_rows=given.chunk_rows)
    engine = RayEngine(concurrency=given.concurrency) if given.ray else local_engine
    try:
        with connected(given.address) if given.ray else nullcontext():
            run(job, engine, resume=given.resume, observe=report)
    except Seq2EdgeError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
