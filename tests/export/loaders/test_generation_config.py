"""``generation_config.json``: every option of transformers is supported, without effect or refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hugging_face_folders import FOLDERS
from hugging_face_models import score_limit, write_json
from scripts_text import sentences
from transformers import GenerationConfig

from seq2edge.errors import CheckpointError
from seq2edge.search.batch_decode import decode
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.loaders.hugging_face.config import NEUTRAL, SUPPORTED, WITHOUT_EFFECT
from seq2edge_export.source_model import TorchEngine

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")
KINDS = ("marian", "bart", "pegasus", "mbart", "mbart50", "m2m100", "nllb", "t5", "mt5")
TEXTS = [text for text in sentences(40, seed=17) if text.isascii()][:5]
TARGETS = {"mbart50": "ro_RO", "m2m100": "__de__", "nllb": "fra_Latn"}  # made first; that of mBART starts the decoder
ENDS = [*range(30, 40)]  # so that outputs end soon
OPTIONS: dict[str, dict[str, Any]] = {
    "limits": {
        "num_beams": 1,
        "max_length": 9,
        "min_length": 6,
        "suppress_tokens": [45, 51],
        "forced_eos_token_id": 33,
    },
    "beams": {
        "num_beams": 3,
        "num_return_sequences": 2,
        "max_new_tokens": 12,
        "min_new_tokens": 4,
        "length_penalty": 0.7,
        "early_stopping": "never",
        "no_repeat_ngram_size": 2,
        "repetition_penalty": 1.4,
        "bad_words_ids": [[41], [42, 43]],
        "renormalize_logits": True,
        "num_beam_groups": 1,
        "encoder_no_repeat_ngram_size": 0,
    },
    "early": {"num_beams": 4, "max_length": 14, "length_penalty": -1.0, "early_stopping": True, "use_cache": True},
}
Folders = Callable[[str], tuple[Path, Any, Any]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    made: dict[str, tuple[Path, Any, Any]] = {}

    def folder(name: str) -> tuple[Path, Any, Any]:
        if name not in made:
            write, tokenizer = FOLDERS[name]
            path = tmp_path_factory.mktemp("generation") / name
            made[name] = path, write(path), tokenizer.from_pretrained(path)
        return made[name]

    return folder


def first_token(name: str, tokenizer: Any) -> dict[str, Any]:
    if name == "mbart":
        return {"decoder_start_token_id": tokenizer.convert_tokens_to_ids("ro_RO")}
    return {"forced_bos_token_id": tokenizer.convert_tokens_to_ids(TARGETS[name]) if name in TARGETS else 44}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("name", KINDS)
def test_options_of_the_file_have_the_effect_of_generate(
    name: str, options: dict[str, Any], folders: Folders, tmp_path: Path
) -> None:
    folder, model, tokenizer = folders(name)
    copy = shutil.copytree(folder, tmp_path / name)
    base = json.loads((folder / "generation_config.json").read_text())
    ends = {"eos_token_id": [model.config.eos_token_id, *ENDS]}
    write_json(copy / "generation_config.json", base | ends | first_token(name, tokenizer) | options)
    ours = load_checkpoint(copy).source_model()
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    wanted = model.generate(
        inputs.input_ids,
        attention_mask=inputs.attention_mask,
        generation_config=GenerationConfig.from_pretrained(copy),
        return_dict_in_generate=True,
        output_scores=True,
    )
    found = decode(TorchEngine(ours.graphs, pad=ours.tokens.pad), ours.tokenizer().encode(TEXTS), ours.generation)
    flat = [hypothesis for hypotheses in found for hypothesis in hypotheses]
    assert len(flat) == len(wanted.sequences)
    for place, hypothesis in enumerate(flat):
        row = wanted.sequences[place, 1:].tolist()
        assert hypothesis.tokens == row[: len(hypothesis.tokens)]
        assert set(row[len(hypothesis.tokens) :]) <= {model.config.pad_token_id, model.config.eos_token_id}
        if "sequences_scores" in wanted:
            limit = score_limit(ours.architecture, len(hypothesis.tokens), ours.generation.length_penalty)
            assert hypothesis.score == pytest.approx(wanted.sequences_scores[place].item(), abs=limit)


def test_every_option_of_transformers_is_known() -> None:
    assert set(GenerationConfig().to_dict()) <= {*SUPPORTED, *NEUTRAL, *WITHOUT_EFFECT}


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_every_unsupported_option_is_refused(name: str, folders: Folders, tmp_path: Path) -> None:
    copy = shutil.copytree(folders(name)[0], tmp_path / name)
    base = json.loads((copy / "generation_config.json").read_text())
    write_json(copy / "generation_config.json", base | NEUTRAL | dict.fromkeys(WITHOUT_EFFECT - {"bos_token_id"}, 7))
    load_checkpoint(copy)
    wrong = dict.fromkeys([*NEUTRAL, "something_new"], 0.37)
    write_json(copy / "generation_config.json", base | wrong)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(copy)
    assert [option for option in wrong if f"{option} = 0.37 in generation_config.json" not in str(caught.value)] == []
