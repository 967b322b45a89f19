"""A comparison asks a bundle whose encoder is gone, and is told the same."""

import gc
import weakref
from pathlib import Path

import pytest

from seq2edge import Translator
from seq2edge_graphs.parity.cached_encoder import cache_encoder
from seq2edge_graphs.parity.measure import BATCH_SIZES, SEARCHES, ParityTask

TEXTS = ["Good morning.", "Where is the old bridge that you told me about?", "I like cheese.", "No."] * 3


@pytest.fixture
def translator() -> Translator:
    return Translator(threads=1)


@pytest.fixture
def task(translator: Translator) -> ParityTask:
    return ParityTask(translator.tokenizer.encode(TEXTS), translator.manifest.generation, 30)


def encode_all(translator: Translator, task: ParityTask, folder: Path) -> None:
    batches = ([task.sources[place] for place in batch] for batch in task.batches(BATCH_SIZES))
    cache_encoder(translator.engine, batches, folder)


def test_every_way_of_a_comparison_is_answered_the_same(
    translator: Translator, task: ParityTask, tmp_path: Path
) -> None:
    before = [task.outputs(translator.engine, *way) for way in SEARCHES]
    encode_all(translator, task, tmp_path)
    assert [task.outputs(translator.engine, *way) for way in SEARCHES] == before


def test_the_encoder_leaves_memory(translator: Translator, task: ParityTask, tmp_path: Path) -> None:
    encoder = weakref.ref(translator.engine.encoder)
    encode_all(translator, task, tmp_path)
    gc.collect()
    assert encoder() is None
