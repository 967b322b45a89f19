"""A comparison with a cached encoder gives the same outputs as one with the encoder in memory."""

import gc
import weakref
from pathlib import Path

import pytest

from seq2edge import Translator
from seq2edge.bundle.bundle import DEFAULT_BUNDLE, load_bundle
from seq2edge.engine.engine import OnnxEngine
from seq2edge_graphs.parity.cached_encoder import EncoderCache
from seq2edge_graphs.parity.record import SEARCHES, ParityTask

TEXTS = ["Good morning.", "Where is the old bridge that you told me about?", "I like cheese.", "No."] * 3


@pytest.fixture
def translator() -> Translator:
    return Translator(threads=1)


@pytest.fixture
def task(translator: Translator) -> ParityTask:
    return ParityTask(translator.tokenizer.encode(TEXTS), translator.manifest.generation, 30)


@pytest.fixture
def cache(tmp_path: Path) -> EncoderCache:
    return EncoderCache(tmp_path)


@pytest.fixture
def engine(cache: EncoderCache) -> OnnxEngine:
    return OnnxEngine(load_bundle(DEFAULT_BUNDLE), threads=1, open_session=cache.open_session)


def test_every_search_of_a_comparison_gives_the_same_outputs(
    translator: Translator, task: ParityTask, cache: EncoderCache, engine: OnnxEngine
) -> None:
    cache.fill(engine, map(task.batch_sources, task.batches()))
    for search in SEARCHES:
        assert task.translate(engine, *search) == task.translate(translator.engine, *search)


def test_the_encoder_is_released(task: ParityTask, cache: EncoderCache, engine: OnnxEngine) -> None:
    assert cache.encoder is not None
    session = weakref.ref(cache.encoder.session)
    cache.fill(engine, map(task.batch_sources, task.batches()))
    gc.collect()
    assert session() is None
