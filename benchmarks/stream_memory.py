"""Measure memory while a long stream is translated: it should not grow with the number of lines.

    python benchmarks/stream_memory.py SENTENCES [--lines 100000] [--workers 1]

The sentences are repeated until there are enough lines. The default model translates them greedily with at most 64
tokens, and the resident memory is printed twenty times.
"""

import itertools
import time
from pathlib import Path

import click

from seq2edge import Translator
from seq2edge.files.lines import read_lines


@click.command()
@click.argument("sentences", type=click.Path(path_type=Path))
@click.option("--lines", default=100_000, show_default=True)
@click.option("--workers", default=1, show_default=True)
def main(sentences: Path, lines: int, workers: int) -> None:
    """Print lines done, seconds and resident memory, twenty times."""
    texts = list(read_lines(sentences))
    stream = itertools.islice(itertools.cycle(texts), lines)
    began, tokens = time.perf_counter(), 0
    with Translator(threads=1, workers=workers) as translator:
        print(f"before: {resident_megabytes():.0f} MB")
        for done, result in enumerate(translator.translate_iter(stream, num_beams=1, max_new_tokens=64), start=1):
            tokens += len(result.tokens)
            if done % (lines // 20) == 0:
                seconds = time.perf_counter() - began
                print(
                    f"{done:>9,} lines  {tokens:>11,} tokens  {seconds:7.0f} s  {resident_megabytes():6.1f} MB",
                    flush=True,
                )


def resident_megabytes() -> float:
    """Return the resident memory of the process (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
