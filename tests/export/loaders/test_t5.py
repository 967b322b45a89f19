"""Compare T5, FLAN-T5 and mT5 with transformers: logits, tokens, scores, ids and text."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hugging_face_folders import assert_same_text
from safetensors.torch import load_file, save_file
from t5_folder import KINDS, SENTINELS, UNUSED, lines, write_t5
from tolerances import log_probability_rounding, network_rounding, score_rounding
from transformers import PreTrainedModel, T5Tokenizer

from seq2edge import Translator
from seq2edge.bundle.bundle import Bundle, Dialect
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import CheckpointError
from seq2edge.search.batch_decode import decode
from seq2edge.text.tokenizer import Tokenizer
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import detect, load_checkpoint
from seq2edge_export.loaders.hugging_face.t5 import load_t5
from seq2edge_export.source_model import TorchEngine

SIZE = 20  # of the logits
LENGTHS = (20, 4, 13, 1, 7, 9)
OPTIONS: list[dict[str, Any]] = [
    {"max_new_tokens": 14},
    {"max_length": 6},
    {"max_new_tokens": 12, "min_new_tokens": 9},
    {"max_length": 12, "min_length": 8},
    {"max_new_tokens": 12, "no_repeat_ngram_size": 1},
    {"max_new_tokens": 12, "no_repeat_ngram_size": 3, "repetition_penalty": 1.3},
    {"max_new_tokens": 8, "forced_bos_token_id": 9, "forced_eos_token_id": 1},
    {"max_new_tokens": 8, "suppress_tokens": (5, 16, 63, 102, 118, 318), "bad_words_ids": ((20,), (7, 8))},
]
BEAMS: list[dict[str, Any]] = [
    {"max_new_tokens": 12, "length_penalty": 2.0},
    {"max_new_tokens": 12, "length_penalty": -1.0, "early_stopping": True},
    {"max_new_tokens": 12, "early_stopping": "never", "num_return_sequences": 3},
]
TEXTS = [text for text in lines(60, seed=4) if "</s>" not in text and text.strip()][:12]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_t5(tmp_path_factory.mktemp(kind), kind)


@pytest.fixture(scope="module")
def theirs(kind: str, folder: Path) -> PreTrainedModel:
    model: PreTrainedModel = KINDS[kind][1].from_pretrained(folder)
    return model.eval()


@pytest.fixture(scope="module")
def ours(folder: Path) -> Checkpoint:
    return load_checkpoint(folder)


@pytest.fixture(scope="module")
def bundle(kind: str, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    dialect: Dialect = "portable" if kind == "t5-v1.1" else "ort"
    return export_bundle(folder, tmp_path_factory.mktemp("bundle") / kind, dialect=dialect)


@pytest.fixture(scope="module")
def engines(ours: Checkpoint, bundle: Bundle) -> dict[str, Any]:
    return {"torch": TorchEngine(ours.source_model().graphs, pad=0), "bundle": OnnxEngine(bundle, threads=1)}


def sources() -> list[list[int]]:
    chance = np.random.default_rng(1)
    return [chance.integers(3, 240, length).tolist() for length in LENGTHS]


def batch(rows: list[list[int]]) -> dict[str, torch.Tensor]:
    mask = torch.arange(max(map(len, rows))) < torch.tensor([len(row) for row in rows])[:, None]
    ids = torch.zeros(mask.shape, dtype=torch.long)
    ids[mask] = torch.tensor([token for row in rows for token in row])
    return {"input_ids": ids, "attention_mask": mask.long()}


def as_lists(value: Any) -> Any:
    return [as_lists(item) for item in value] if isinstance(value, tuple) else value


def assert_same_outputs(
    model: PreTrainedModel, engine: Any, options: dict[str, Any], defaults: Checkpoint, **more: Any
) -> None:
    options = {**options, **more}
    given = {name: as_lists(value) for name, value in options.items()}
    wanted = model.generate(**batch(sources()), **given, return_dict_in_generate=True, output_scores=True)
    found = decode(engine, sources(), replace(defaults.generation, **options))
    flat = [hypothesis for hypotheses in found for hypothesis in hypotheses]
    assert len(flat) == len(wanted.sequences)
    for place, hypothesis in enumerate(flat):
        expected = wanted.sequences[place, 1:].tolist()
        assert hypothesis.tokens == expected[: len(hypothesis.tokens)]
        assert set(expected[len(hypothesis.tokens) :]) <= {0, 1}  # transformers fills up beams with the end mark
        if "sequences_scores" in wanted:
            each = log_probability_rounding(network_rounding(defaults.model.architecture, SIZE))
            limit = score_rounding(len(hypothesis.tokens), each, options.get("length_penalty", 1.0))
            assert hypothesis.score == pytest.approx(wanted.sequences_scores[place].item(), abs=limit)


def test_the_folder_is_recognized(folder: Path, ours: Checkpoint, theirs: PreTrainedModel) -> None:
    assert detect(folder) == "t5"
    shape = ours.model.architecture
    assert shape.tied_output == (theirs.lm_head.weight is theirs.shared.weight)
    assert sum(one.numel() for one in ours.model.parameters()) == theirs.num_parameters()


def test_outputs_of_the_models_differ_enough_for_a_comparison(theirs: PreTrainedModel) -> None:
    outputs = theirs.generate(**batch(sources()), num_beams=4, num_return_sequences=4, max_new_tokens=14)[:, 1:]
    assert len(outputs.unique(dim=0)) >= 14  # of 24
    assert len(outputs.unique()) >= 8
    ended = (outputs == 1).any(dim=1)
    assert ended.any()
    assert not ended.all()


def test_logits_under_teacher_forcing_are_those_of_transformers(ours: Checkpoint, theirs: PreTrainedModel) -> None:
    source = batch([*sources(), [*range(3, 93)]])  # beyond the distance that has a bucket of its own
    target = torch.randint(0, 240, (7, 40), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        wanted = theirs(**source, decoder_input_ids=target).logits
        found = ours.model(source["input_ids"], source["attention_mask"].bool(), target)
    limit = network_rounding(ours.model.architecture, SIZE, length=90)
    torch.testing.assert_close(found, wanted, atol=limit, rtol=0)


@pytest.mark.parametrize("kind_of_engine", ["torch", "bundle"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_greedy_search_gives_the_tokens_of_transformers(
    theirs: PreTrainedModel, engines: dict[str, Any], ours: Checkpoint, kind_of_engine: str, options: dict[str, Any]
) -> None:
    assert_same_outputs(theirs, engines[kind_of_engine], options, ours, num_beams=1)


@pytest.mark.parametrize("kind_of_engine", ["torch", "bundle"])
@pytest.mark.parametrize("options", [*OPTIONS, *BEAMS], ids=str)
def test_beam_search_gives_the_tokens_and_scores_of_transformers(
    theirs: PreTrainedModel, engines: dict[str, Any], ours: Checkpoint, kind_of_engine: str, options: dict[str, Any]
) -> None:
    assert_same_outputs(theirs, engines[kind_of_engine], options, ours, num_beams=4)


def test_texts_are_encoded_and_decoded_as_in_transformers(
    folder: Path, theirs: PreTrainedModel, bundle: Bundle
) -> None:
    tokenizer = T5Tokenizer.from_pretrained(folder)
    prefix = "translate English to German: "
    wanted = theirs.generate(
        **batch([tokenizer(prefix + text).input_ids for text in TEXTS]), num_beams=2, max_new_tokens=12
    )
    translator = Translator(bundle.folder, threads=1)
    found = translator.translate(TEXTS, source_prefix=prefix, num_beams=2, max_new_tokens=12)
    assert [one.text for one in found] == tokenizer.batch_decode(wanted, skip_special_tokens=True)
    assert translator.translate([" ", "\u200b"], source_prefix=prefix)[1].text == ""
    spelt = translator.translate(TEXTS[:1], source_prefix="x ", attention="all", max_new_tokens=3)[0]
    assert spelt.attention is not None
    assert len(spelt.attention.source) == len(tokenizer("x " + TEXTS[0]).input_ids)


def tokenizers(folder: Path) -> tuple[Tokenizer, T5Tokenizer]:
    return load_t5(folder).source_model().tokenizer(), T5Tokenizer.from_pretrained(folder)


def test_ids_of_thousands_of_lines_are_those_of_transformers(folder: Path) -> None:
    tokenizer, original = tokenizers(folder)
    texts = lines(4000)
    for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
        assert ids == original(text).input_ids, text
        assert len(tokenizer.tokenize_source(text)) == len(ids)


def test_texts_of_any_ids_are_those_of_transformers(kind: str, folder: Path) -> None:
    tokenizer, original = tokenizers(folder)
    assert tokenizer.target.get_piece_size() == len(original) == 240 + SENTINELS[kind]
    chance = np.random.default_rng(5)
    rows = [chance.integers(0, len(original) + UNUSED, length).tolist() for length in chance.integers(0, 12, 2000)]
    assert tokenizer.decode(rows) == original.batch_decode(rows, skip_special_tokens=True)


def test_decomposed_letters_are_composed_as_in_sentencepiece(folder: Path) -> None:
    """Unlike transformers, which reads decomposed Hangul as unknown; T5 was trained with SentencePiece."""
    tokenizer, original = tokenizers(folder)
    whole, parts = "한국어", "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165"
    assert tokenizer.encode([parts]) == tokenizer.encode([whole])
    assert original(parts).input_ids != original(whole).input_ids


def test_a_tokenizer_json_is_used_if_there_is_no_sentencepiece_model(tmp_path: Path) -> None:
    folder = write_t5(tmp_path / "t5")
    T5Tokenizer.from_pretrained(folder).save_pretrained(folder)
    (folder / "spiece.model").unlink(missing_ok=True)
    change(folder / "config.json", task_specific_params={"translation_en_to_de": {"prefix": "to German: "}})
    found = load_t5(folder).source_model()
    assert (found.tokenization.kind, found.tokenization.source_prefix) == ("tokenizers", "to German: ")
    assert (found.tokens.pad, found.tokens.bos, found.tokens.eos, found.tokens.unk) == (0, 0, 1, 2)
    assert_same_text(folder, T5Tokenizer.from_pretrained(folder), lines(1000), prefix="to German: ")


def test_added_tokens_are_read_from_a_tokenizer_json(tmp_path: Path) -> None:
    folder = write_t5(tmp_path / "t5")
    tokenizer = T5Tokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<new>", "größte"])
    tokenizer.save_pretrained(folder)
    assert tokenizer.convert_tokens_to_ids("größte") == 341
    assert_same_text(folder, tokenizer, [f"{text} größte <new>" for text in lines(200)])


# Settings.


def change(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text()) | values
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not ...}))


def test_search_options_are_those_of_the_folder(tmp_path: Path) -> None:
    write_t5(tmp_path)
    chosen = {"num_beams": 3, "max_length": 15, "no_repeat_ngram_size": 2, "length_penalty": 0.6, "top_k": None}
    change(tmp_path / "generation_config.json", **chosen, early_stopping=True, eos_token_id=[1, 5], do_sample=False)
    found, model = load_t5(tmp_path), KINDS["t5"][1].from_pretrained(tmp_path).eval()
    engine = TorchEngine(found.source_model().graphs, pad=0)
    wanted = model.generate(**batch(sources()))[:, 1:].tolist()
    for [hypothesis], expected in zip(decode(engine, sources(), found.generation), wanted, strict=True):
        assert hypothesis.tokens == expected[: len(hypothesis.tokens)]


def test_search_options_of_old_folders_are_in_the_config(tmp_path: Path) -> None:
    write_t5(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    change(tmp_path / "config.json", num_beams=5, max_length=33)
    found = load_t5(tmp_path).generation
    assert (found.num_beams, found.max_length, found.decoder_start_token_id, found.eos_token_id) == (5, 33, 0, 1)


def test_missing_settings_have_the_defaults_of_transformers(tmp_path: Path) -> None:
    """An old T5 1.1 is recognized only by its untied output."""
    write_t5(tmp_path, "t5-v1.1")
    gone = dict.fromkeys(("scale_decoder_outputs", "dense_act_fn", "is_gated_act", "layer_norm_epsilon"), ...)
    change(tmp_path / "config.json", **gone, tie_word_embeddings=False)
    found = load_t5(tmp_path).model.architecture
    assert (found.output_scale, found.gated, found.activation, found.norm_epsilon) == (1.0, True, "gelu_tanh", 1e-6)
    change(tmp_path / "config.json", tie_word_embeddings=...)
    assert load_t5(tmp_path).model.architecture.output_scale == 0.25


def test_a_decoder_may_be_deeper_than_the_encoder(tmp_path: Path) -> None:
    folder = write_t5(tmp_path, num_layers=1, num_decoder_layers=3)
    ours, theirs = load_t5(folder).model, KINDS["t5"][1].from_pretrained(folder).eval()
    source, target = batch(sources()), torch.full((6, 3), 7)
    with torch.inference_mode():
        wanted = theirs(**source, decoder_input_ids=target, use_cache=False).logits
        found = ours(source["input_ids"], source["attention_mask"].bool(), target)
    torch.testing.assert_close(found, wanted, atol=network_rounding(ours.architecture, SIZE), rtol=0)


def test_a_single_translation_task_gives_prefix_and_languages(tmp_path: Path) -> None:
    write_t5(tmp_path)
    german = {"translation_en_to_de": {"prefix": "translate English to German: ", "num_beams": 4}}
    french = {"translation_en_to_fr": {"prefix": "translate English to French: "}}
    change(tmp_path / "config.json", task_specific_params={"summarization": {"prefix": "summarize: "}, **german})
    one = load_t5(tmp_path).source_model()
    assert one.tokenization.source_prefix == "translate English to German: "
    assert (one.languages.source, one.languages.target) == ("en", "de")
    plain = one.tokenizer().with_source_prefix("")
    assert one.tokenizer().encode(["a house"]) == plain.encode(["translate English to German: a house"])
    change(tmp_path / "config.json", task_specific_params=german | french)
    assert load_t5(tmp_path).source_model().tokenization.source_prefix == ""


# Refusals.


def refusal(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_all_unsupported_settings_are_in_one_error(tmp_path: Path) -> None:
    write_t5(tmp_path)
    change(tmp_path / "config.json", dense_act_fn="mish", is_encoder_decoder=False)
    change(tmp_path / "generation_config.json", penalty_alpha=0.6, num_beams=0, num_beam_groups=1)
    change(tmp_path / "tokenizer_config.json", added_tokens_decoder={"340": {"content": "<new>"}})
    (tmp_path / "spiece.model").unlink()
    found = refusal(tmp_path)
    for words in ("'mish'", "is_encoder_decoder", "penalty_alpha", "num_beams", "<new>", "neither spiece.model nor"):
        assert words in found
    assert "num_beam_groups" not in found


def without(name: str, folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file({**tensors, "adapter.weight": torch.zeros(2)}, folder / "model.safetensors")


BROKEN: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "tensors": (
        partial(without, "encoder.final_layer_norm.weight"),
        ("encoder.final_layer_norm.weight is missing", "adapter.weight is unexpected"),
    ),
    "umt5": (lambda folder: change(folder / "config.json", model_type="umt5"), ("relative bias in every layer",)),
    "sizes": (lambda folder: change(folder / "config.json", d_ff=41), ("wi.weight has shape (40, 16)",)),
    "types": (lambda folder: change(folder / "config.json", num_heads="two"), ("does not describe a Transformer",)),
    "buckets": (
        lambda folder: change(folder / "config.json", relative_attention_num_buckets=2),
        ("relative positions need at least 4 buckets",),
    ),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), ("has no weights",)),
    "json": (lambda folder: (folder / "generation_config.json").write_text("[1]") and None, ("JSON object",)),
    "pieces": (
        lambda folder: (folder / "spiece.model").write_bytes(b"x") and None,
        ("not a valid SentencePiece model",),
    ),
}


@pytest.mark.parametrize(("spoil", "words"), BROKEN.values(), ids=BROKEN)
def test_a_broken_folder_is_refused(tmp_path: Path, spoil: Callable[[Path], None], words: tuple[str, ...]) -> None:
    spoil(write_t5(tmp_path))
    found = refusal(tmp_path)
    assert all(text in found for text in words)


def test_an_index_with_files_outside_its_folder_is_refused(tmp_path: Path) -> None:
    write_t5(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../other.safetensors"}}))
    assert "is not a file next to it" in refusal(tmp_path)


def test_the_vocabulary_must_not_be_larger_than_the_model(tmp_path: Path) -> None:
    write_t5(tmp_path)
    change(tmp_path / "tokenizer_config.json", extra_ids=200)
    with pytest.raises(CheckpointError, match="the source vocabulary has 440 tokens, but the model has 352"):
        export_bundle(tmp_path, tmp_path / "bundle")
