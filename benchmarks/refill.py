"""Estimate the gain of continuous batching: replacing finished sentences of a batch by new ones.

    python benchmarks/refill.py SENTENCES [BUNDLE]

Sentences are sorted and batched as usual, and every decoder step is timed with its number of rows. The time of a step
is a constant plus a time per row (fitted by least squares). Refilling would not change the time for the rows; at best,
with every batch always full, it would save the constant of the steps that are partly empty. The printed bound does not
subtract the costs of new rows in the middle of a batch (masks, padding, copies of the KV cache).
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from seq2edge import Translator
from seq2edge.files.lines import read_lines
from seq2edge.search import DecoderState, Ids, StepOutput
from seq2edge.search.batch_decode import decode


class TimedEngine:
    """An engine that records the rows and seconds of every decoder call, and the rows of the full batch."""

    def __init__(self, translator: Translator) -> None:
        self.engine = translator.engine
        self.calls: list[tuple[int, int, float]] = []  # rows, rows of the full batch, seconds

    def start(self, sources: list[list[int]]) -> DecoderState:
        return TimedState(self.engine.start(sources), len(sources), self.calls)


class TimedState(DecoderState):
    def __init__(self, state: DecoderState, sentences: int, calls: list[tuple[int, int, float]]) -> None:
        self.state, self.sentences, self.calls = state, sentences, calls

    def step(self, tokens: Ids, rows: Ids) -> StepOutput:
        began = time.perf_counter()
        output = self.state.step(tokens, rows)
        self.calls.append((rows.size, self.sentences * rows.shape[1], time.perf_counter() - began))
        return output


def measure(translator: Translator, sources: list[list[int]], num_beams: int) -> None:
    engine = TimedEngine(translator)
    options = replace(translator.manifest.generation, num_beams=num_beams)
    began = time.perf_counter()
    decode(engine, sources, options)
    total = time.perf_counter() - began
    rows, full, seconds = np.array(engine.calls).T
    fixed, each = np.linalg.lstsq(np.stack([np.ones_like(rows), rows], axis=1), seconds, rcond=None)[0]
    needed = (rows / full).sum()  # steps if every one were full
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
