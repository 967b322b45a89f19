"""Shortlists of float32, float16, portable and recurrent decoders; int4 is not supported."""

from pathlib import Path

import numpy as np
import pytest
from tiny_checkpoint import SENTENCES, TINY
from tolerances import log_softmax_rounding, score_rounding

from seq2edge import Translator
from seq2edge.bundle.bundle import Bundle, load_bundle
from seq2edge.engine.shortlist import Shortlist, shortlist_of
from seq2edge.errors import UsageError
from seq2edge_graphs.quantize.config import QuantizationConfig
from seq2edge_graphs.quantize.pipeline import quantize_bundle
from seq2edge_graphs.shortlist.bundle import add_shortlist

TEXTS = [*SENTENCES[::60][:6], "x"]
SCORES = score_rounding(10, log_softmax_rounding(TINY.target_vocabulary, 10))  # exponentials in another order


def size(bundle: Bundle) -> int:
    assert bundle.manifest.architecture is not None
    return bundle.manifest.architecture.target_vocabulary


def all_tokens(bundle: Bundle) -> Shortlist:
    return shortlist_of([], np.arange(size(bundle)), size(bundle))


def some_tokens(bundle: Bundle) -> Shortlist:
    random, count = np.random.default_rng(0), size(bundle)
    return shortlist_of([random.choice(count, count // 16, replace=False) for _ in range(count)], [3], count)


@pytest.fixture(scope="module")
def bundles(made, student, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("shortlist")
    quantize_bundle(student.bundles["ort"], folder / "recurrent8", QuantizationConfig(precision="int8"), compare=False)
    quantize_bundle(made.bundles["ort"], folder / "half", QuantizationConfig(precision="fp16"), compare=False)
    return {
        "float32": made.bundles["ort"],
        "portable float32": made.bundles["portable"],
        "float16": folder / "half",
        "recurrent": student.bundles["ort"],
        "recurrent int8": folder / "recurrent8",
    }


DECODERS = ["float32", "portable float32", "float16", "recurrent", "recurrent int8"]


@pytest.mark.parametrize("kind", DECODERS)
def test_with_the_whole_vocabulary_nothing_changes(bundles: dict[str, Path], tmp_path: Path, kind: str) -> None:
    made = add_shortlist(bundles[kind], tmp_path / "made", all_tokens)
    for beams in (1, 3):
        ours, full = (
            Translator(made.folder, threads=1, shortlist=short).translate(TEXTS, num_beams=beams, max_new_tokens=10)
            for short in (True, False)
        )
        assert [one.tokens for one in ours] == [one.tokens for one in full]
        assert [one.score for one in ours] == pytest.approx([one.score for one in full], abs=SCORES)


@pytest.mark.parametrize("kind", DECODERS)
def test_results_do_not_depend_on_the_batch(bundles: dict[str, Path], tmp_path: Path, kind: str) -> None:
    made = add_shortlist(bundles[kind], tmp_path / "made", some_tokens)
    translator = Translator(made.folder, threads=1)
    for beams in (1, 3):
        together = translator.translate(TEXTS, num_beams=beams, max_new_tokens=10)
        alone = [translator.translate([text], num_beams=beams, max_new_tokens=10)[0] for text in TEXTS]
        assert [one.tokens for one in together] == [one.tokens for one in alone]


def test_four_bits_and_portable_integers_are_refused(made, tmp_path: Path) -> None:
    quantize_bundle(made.bundles["ort"], tmp_path / "int4", QuantizationConfig(precision="int4"), compare=False)
    quantize_bundle(made.bundles["portable"], tmp_path / "int8", QuantizationConfig(precision="int8"), compare=False)
    for name in ("int4", "int8"):
        with pytest.raises(UsageError, match="does not support a shortlist: it needs a bundle in the dialect ort"):
            add_shortlist(tmp_path / name, tmp_path / "made", all_tokens)
        assert not (tmp_path / "made").exists()


def test_a_bundle_with_a_shortlist_is_not_quantized(made, tmp_path: Path) -> None:
    short = add_shortlist(made.bundles["ort"], tmp_path / "short", all_tokens)
    with pytest.raises(UsageError, match="quantize the bundle without"):
        quantize_bundle(short.folder, tmp_path / "int8", QuantizationConfig(precision="int8"))
    assert load_bundle(short.folder).manifest.precision == "fp32"
