"""Compare trained models with transformers, whose beams end at realistic lengths."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hugging_face_models import Pair, generate, score_limit
from scripts_text import sentences
from trained_models import train_marian, train_nllb, train_t5

from seq2edge import Translator
from seq2edge.search.batch_decode import decode
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.source_model import TorchEngine

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")
TRAIN = {"marian": train_marian, "nllb": train_nllb, "t5": train_t5}
LONGEST = 60
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1},
    "beam": {"num_beams": 4},
    "n-best": {"num_beams": 5, "num_return_sequences": 5, "length_penalty": 1.5},
    "never": {"num_beams": 3, "early_stopping": "never", "length_penalty": -0.5, "num_return_sequences": 2},
    "careful": {
        "num_beams": 4,
        "early_stopping": True,
        "no_repeat_ngram_size": 2,
        "repetition_penalty": 1.2,
        "min_new_tokens": 6,
    },
}
Trained = Callable[[str], tuple[Path, Any, Any, list[str]]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Return the folder, model, tokenizer and texts of a kind, half of them seen in training."""
    made: dict[str, tuple[Path, Any, Any, list[str]]] = {}

    def model_of(name: str) -> tuple[Path, Any, Any, list[str]]:
        if name not in made:
            folder = tmp_path_factory.mktemp("trained") / name
            model, tokenizer, pairs = TRAIN[name](folder)
            new = sentences(8, seed=31) if name != "t5" else ["a red sea", "old bird sells every house", "bread"]
            made[name] = folder, model, tokenizer, [source for source, _ in pairs[::2]] + new
        return made[name]

    return model_of


def target(name: str, tokenizer: Any) -> dict[str, Any]:
    return {"forced_bos_token_id": tokenizer.convert_tokens_to_ids("deu_Latn")} if name == "nllb" else {}


@pytest.mark.parametrize("name", TRAIN)
def test_outputs_end_at_different_lengths(name: str, trained: Trained) -> None:
    _, model, tokenizer, texts = trained(name)
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    found = generate(model, inputs, num_beams=1, max_length=LONGEST, **target(name, tokenizer)).sequences[:, 1:]
    ended = [row.tolist().index(tokenizer.eos_token_id) for row in found if tokenizer.eos_token_id in row]
    assert len(ended) >= 0.8 * len(texts)
    assert len(set(ended)) >= 6


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("name", TRAIN)
def test_tokens_and_scores_are_those_of_generate(name: str, options: dict[str, Any], trained: Trained) -> None:
    folder, model, tokenizer, texts = trained(name)
    ours = load_checkpoint(folder).source_model()
    engine = TorchEngine(ours.graphs, pad=ours.tokens.pad)
    options = options | target(name, tokenizer)
    wanted = generate(model, tokenizer(texts, padding=True, return_tensors="pt"), **options)
    found = decode(engine, ours.tokenizer().encode(texts), replace(ours.generation, **options))
    flat = [hypothesis for hypotheses in found for hypothesis in hypotheses]
    assert len(flat) == len(wanted.sequences)
    for place, hypothesis in enumerate(flat):
        row = wanted.sequences[place, 1:].tolist()
        assert hypothesis.tokens == row[: len(hypothesis.tokens)]
        assert set(row[len(hypothesis.tokens) :]) <= {tokenizer.pad_token_id, tokenizer.eos_token_id}
        if "sequences_scores" in wanted:
            limit = score_limit(ours.architecture, len(hypothesis.tokens), options.get("length_penalty", 1.0))
            assert hypothesis.score == pytest.approx(wanted.sequences_scores[place].item(), abs=limit)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAIN)
def test_the_bundle_gives_the_same_text(name: str, trained: Trained) -> None:
    folder, model, tokenizer, texts = trained(name)
    bundle = export_bundle(folder, folder.with_suffix(".bundle"))
    pair = Pair(Translator(bundle.folder, threads=1), model, tokenizer)
    told = {"source_lang": "eng_Latn", "target_lang": "deu_Latn"} if name == "nllb" else {}
    for options in OPTIONS.values():
        pair.assert_same(texts, ours=told | options, **target(name, tokenizer), **options)
