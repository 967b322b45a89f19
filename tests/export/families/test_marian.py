"""MarianMT of transformers: the same tokens, scores and text from the bundle."""

from pathlib import Path

import pytest
import torch
from hugging_face_models import Pair, write_marian
from scripts_text import lines, sentences
from transformers import MarianMTModel, MarianTokenizer

from seq2edge import Translator
from seq2edge_export.export import export_bundle
from seq2edge_export.families import detect, load_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")
TEXTS = sentences(14, seed=7)
LIVELY = {"repetition_penalty": 2.5, "eos_token_id": [0, *range(20, 40)]}  # outputs that change and end soon


def pair_of(folder: Path, model: MarianMTModel) -> Pair:
    bundle = export_bundle(folder, folder.parent / f"{folder.name}.bundle")
    return Pair(Translator(bundle.folder, threads=1), model, MarianTokenizer.from_pretrained(folder))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("marian") / "opus"
    return pair_of(folder, write_marian(folder, tags=("deu", "fra", "zho_Hans")))


def test_the_folder_says_what_it_is(pair: Pair, tmp_path: Path) -> None:
    write_marian(tmp_path / "opus")
    assert detect(tmp_path / "opus") == "marian"
    assert pair.translator.manifest.family == "marian"
    assert pair.translator.manifest.architecture.positions == "sinusoidal_halves"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_beams": 1, **LIVELY},
        {"num_beams": 6, "num_return_sequences": 3, "length_penalty": 0.6, **LIVELY},
        {"num_beams": 2, "renormalize_logits": False, "early_stopping": True, **LIVELY},
        {
            "num_beams": 3,
            "max_new_tokens": 9,
            "min_new_tokens": 5,
            "suppress_tokens": [7, 9],
            "no_repeat_ngram_size": 1,
        },
    ],
)
def test_tokens_scores_and_text_are_those_of_generate(pair: Pair, options: dict) -> None:
    pair.assert_same(TEXTS, **options)
