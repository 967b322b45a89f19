"""Batches are as large as is fast, and dividing them changes nothing."""

from dataclasses import replace

import pytest

from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.engine.engine import ROWS_PER_BATCH, OnnxEngine
from seq2edge.search.batch_decode import LAST_BATCH_TOKENS, decode, group

SOURCES = [[5 + 3 * row, 40 + row, 900 + row, 3] for row in range(10)]


class Counting:
    """An engine that notes how many sentences it was given at a time."""

    def __init__(self, engine: OnnxEngine) -> None:
        self.engine, self.sizes = engine, list[int]()

    def start(self, sources):
        self.sizes.append(len(sources))
        return self.engine.start(sources)


@pytest.fixture(scope="module")
def engine() -> OnnxEngine:
    return OnnxEngine(load_bundle(DEFAULT_BUNDLE), threads=1)


@pytest.mark.parametrize(("beams", "sizes"), [(1, [8, 2]), (4, [2, 2, 2, 2, 2])])
def test_a_batch_has_no_more_rows_than_asked_for(engine: OnnxEngine, beams: int, sizes: list[int]) -> None:
    options = replace(load_bundle(DEFAULT_BUNDLE).manifest.generation, num_beams=beams, max_new_tokens=5)
    counting = Counting(engine)
    divided = decode(counting, SOURCES, options, most_rows=8)
    assert counting.sizes == sizes
    whole = decode(engine, SOURCES, options)
    assert [found[0].tokens for found in divided] == [found[0].tokens for found in whole]


def test_a_small_vocabulary_allows_more_rows(engine: OnnxEngine) -> None:
    assert engine.most_rows > ROWS_PER_BATCH


@pytest.mark.parametrize("workers", [2, 3, 8])
@pytest.mark.parametrize("count", [1, 7, 200, 5000])
def test_the_last_batches_keep_all_workers_busy(workers: int, count: int) -> None:
    lengths = [3 + 7 * index % 40 for index in range(count)]
    batches = group(lengths, batch_tokens=1024, workers=workers)
    assert sorted(index for batch in batches for index in batch) == [*range(count)]
    tokens = [sum(lengths[index] for index in batch) for batch in batches]
    for number, size in enumerate(tokens):
        assert size <= max(LAST_BATCH_TOKENS, sum(tokens[number:]) // (2 * workers), max(lengths))


def test_one_worker_gets_full_batches() -> None:
    assert [len(batch) for batch in group([8] * 300, batch_tokens=1024)] == [128, 128, 44]
