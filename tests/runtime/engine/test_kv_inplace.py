"""A sentence in a batch is decoded as it is alone, whichever others leave the batch and when."""

from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pytest

from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.engine.engine import OnnxEngine
from seq2edge.engine.kv_inplace import CAPACITY, MOST_KEPT
from seq2edge.search import BatchContext, StreamingSearch
from seq2edge.search.batch_decode import decode

SOURCES = [[5 + 3 * row, 40 + row, 900 + row, *[60 + row] * (row % 4), 3] for row in range(10)]  # of several lengths


def test_sentences_that_end_with_their_first_token_leave_the_others_as_they_are() -> None:
    bundle = load_bundle(DEFAULT_BUNDLE)
    engine, options = OnnxEngine(bundle, threads=1), bundle.manifest.generation
    begin = replace(options, num_beams=2, num_return_sequences=2, max_new_tokens=1)
    ends = {found.tokens[0] for found in decode(engine, SOURCES[:1], begin)[0]}  # what the first sentence begins with
    options = replace(options, num_beams=2, eos_token_id=(*ends, 3), early_stopping=True, max_new_tokens=12)
    together = [found[0].tokens for found in decode(engine, SOURCES, options)]
    assert 1 == len(together[0]) < max(map(len, together))
    assert together == [decode(engine, [source], options)[0][0].tokens for source in SOURCES]


@pytest.mark.parametrize("num_beams", [1, 3])
def test_searches_at_the_same_time_do_not_share_arrays(num_beams: int) -> None:
    bundle = load_bundle(DEFAULT_BUNDLE)
    options = replace(bundle.manifest.generation, num_beams=num_beams, max_new_tokens=CAPACITY + 8)  # the cache grows

    def stream(engine: OnnxEngine, source: list[int]) -> StreamingSearch:
        prefix = np.full((1, 1), options.decoder_start_token_id)
        return StreamingSearch(engine.start([source]), prefix, options, BatchContext())

    sources = [[5 + row, 40 + row, 900 + row, 3] for row in range(6)]  # of one length, so that arrays are reused
    alone = [[[*tokens] for tokens in stream(OnnxEngine(bundle, threads=1), source)] for source in sources]
    engine = OnnxEngine(bundle, threads=1)
    for first, second in ((0, 1), (2, 3), (4, 5)):
        both = stream(engine, sources[first]), stream(engine, sources[second])
        found = [tuple(one and [*one] for one in pair) for pair in zip_longest(*both)]
        for place, expected in enumerate((alone[first], alone[second])):
            assert [pair[place] for pair in found[: len(expected)]] == expected


def test_idle_arrays_are_reused_and_limited() -> None:
    engine = OnnxEngine(load_bundle(DEFAULT_BUNDLE), threads=1)
    options = replace(load_bundle(DEFAULT_BUNDLE).manifest.generation, max_new_tokens=2, num_beams=4)
    for length in range(3, 60):
        decode(engine, [[5] * length], options)
    engine.calls.take((), (), ())
    assert 0 < sum(call.size for call in engine.calls._calls) <= MOST_KEPT
    before = len(engine.calls._calls)
    decode(engine, [[5] * 59], options)
    engine.calls.take((), (), ())
    assert len(engine.calls._calls) == before


@pytest.mark.parametrize("beams", [1, 2])
def test_dropping_sentences_changes_no_logits(beams: int) -> None:
    random = np.random.default_rng(beams)
    engine = OnnxEngine(load_bundle(DEFAULT_BUNDLE), threads=1)
    sources = [[5 + 3 * row, 40 + row, 900 + row, 3] for row in range(8)]
    together, alone = engine.start(sources), {row: engine.start([source]) for row, source in enumerate(sources)}
    going, before = list(range(len(sources))), 1
    tokens = np.full((len(sources), 1, 1), 2)
    rows = np.arange(len(sources))[:, None]
    for step in range(CAPACITY + 8):  # the cache grows
        logits = together.step(tokens, rows).logits.copy()
        for place, sentence in enumerate(going):
            own = rows[place : place + 1] % before if step else np.zeros((1, 1), np.int64)
            np.testing.assert_array_equal(logits[place], alone[sentence].step(tokens[place : place + 1], own).logits[0])
        kept = [place for place in range(len(going)) if random.random() > 0.06 or len(going) < 3]
        before, going = rows.shape[1], [going[place] for place in kept]
        parents = random.integers(0, before, (len(kept), beams))
        rows = np.array(kept)[:, None] * before + parents
        tokens = random.integers(4, 900, (len(kept), beams, 1))
    assert len(going) < len(sources)
