"""What could be gained by giving the places of finished sentences to new ones in mid-flight.

    python benchmarks/refill.py SENTENCES [BUNDLE]

Sentences are sorted and batched as always, and every decoder step is timed with its number of rows. A step costs a
fixed part and a part for each row (fitted by least squares). Refilling would not change the work for the rows; at best,
with every batch always full, it would save the fixed part of the steps that run half empty. That is the bound printed;
what new rows in the middle of a batch would cost (masks, padding, copies of the cache) is not subtracted.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from seq2edge import Translator
from seq2edge.files.lines import read_lines
from seq2edge.search import Ids, Scores, Step
from seq2edge.search.batch_decode import decode


class TimedEngine:
    """An engine that notes rows and seconds of every decoder call, and the rows that its batch began with."""

    def __init__(self, translator: Translator) -> None:
        self.engine = translator.engine
        self.calls: list[tuple[int, int, float]] = []  # rows, rows of the full batch, seconds

    def start(self, sources: list[list[int]]) -> Step:
        step, sentences = self.engine.start(sources), len(sources)

        def timed(tokens: Ids, rows: Ids) -> Scores:
            began = time.perf_counter()
            scores = step(tokens, rows)
            self.calls.append((rows.size, sentences * rows.shape[1], time.perf_counter() - began))
            return scores

        return timed


def measure(translator: Translator, sources: list[list[int]], num_beams: int) -> None:
    engine = TimedEngine(translator)
    options = replace(translator.manifest.generation, num_beams=num_beams)
    began = time.perf_counter()
    decode(engine, sources, options)
    total = time.perf_counter() - began
    rows, full, seconds = np.array(engine.calls).T
    fixed, each = np.linalg.lstsq(np.stack([np.ones_like(rows), rows], axis=1), seconds, rcond=None)[0]
    needed = (rows / full).sum()  # steps, if every one were full
    saved = max(0.0, fixed) * (len(rows) - needed)
    print(
        f"beams {num_beams}: {len(sources)} sentences, {len(rows)} steps, {needed / len(rows):.0%} full on average, "
        f"a step costs {fixed * 1e3:.2f} ms and {each * 1e6:.0f} us a row; refilling could save {saved / total:.1%} "
        f"of {total:.1f} s"
    )


def main() -> None:
    translator = Translator(sys.argv[2] if len(sys.argv) > 2 else None, threads=1)
    texts = list(read_lines(Path(sys.argv[1])))
    sources = [ids for ids in translator.tokenizer.encode_visible(texts) if ids and len(ids) <= translator.longest]
    for num_beams in (1, 4):
        measure(translator, sources, num_beams)


if __name__ == "__main__":
    main()
