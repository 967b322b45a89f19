"""Compare bundles with transformers: the same tokens, scores and text."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hugging_face_folders import AS_SENTENCEPIECE, CONVERTED, assert_same_text
from hugging_face_folders import BART_LIKE as FOLDERS
from hugging_face_models import Pair, generate, score_limit, write_nllb
from scripts_text import lines, sentences
from sentencepiece import SentencePieceProcessor

from seq2edge import Translator
from seq2edge.errors import UsageError
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import detect, load_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")
TEXTS = sentences(10, seed=7)
LINES = lines(3000)
LIVELY = {"repetition_penalty": 2.5, "eos_token_id": [2, *range(30, 42)]}  # outputs that change and end soon

FAMILIES = {"marian-separate": "marian", "mbart50": "mbart", "nllb": "m2m100"}
MANY = {  # two pairs of languages each
    "mbart": (("en_XX", "ro_RO"), ("zh_CN", "de_DE")),
    "mbart50": (("en_XX", "ro_RO"), ("zh_CN", "sl_SI")),
    "m2m100": (("en", "de"), ("zh", "fr")),
    "nllb": (("deu_Latn", "fra_Latn"), ("zho_Hans", "eng_Latn")),
}
COMPARED = {"marian", "nllb"}  # by the export itself, before transformers is asked


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any, Any]]:
    """Return a function that creates the folder, model and tokenizer of a kind once."""
    root = tmp_path_factory.mktemp("hugging_face")
    made: dict[str, tuple[Path, Any, Any]] = {}

    def folder(name: str) -> tuple[Path, Any, Any]:
        if name not in made:
            write, tokenizer = FOLDERS[name]
            model = write(root / name)
            made[name] = root / name, model, tokenizer.from_pretrained(root / name)
        return made[name]

    return folder


@pytest.fixture(scope="module")
def pairs(folders: Callable[[str], tuple[Path, Any, Any]]) -> Callable[[str], Pair]:
    made: dict[str, Pair] = {}

    def pair(name: str) -> Pair:
        if name not in made:
            folder, model, tokenizer = folders(name)
            bundle = export_bundle(folder, folder.with_suffix(".bundle"), compare=name in COMPARED)
            made[name] = Pair(Translator(bundle.folder, threads=1), model, tokenizer)
        return made[name]

    return pair


def target_options(pair: Pair, name: str, source: str, target: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the language options of seq2edge and of transformers."""
    pair.tokenizer.src_lang = source
    token = f"__{target}__" if name == "m2m100" else target
    option = "decoder_start_token_id" if name == "mbart" else "forced_bos_token_id"
    return {"source_lang": source, "target_lang": target}, {option: pair.tokenizer.convert_tokens_to_ids(token)}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_recognized_by_its_config(name: str, folders: Any) -> None:
    assert detect(folders(name)[0]) == FAMILIES.get(name, name)


@pytest.mark.parametrize("name", FOLDERS)
def test_logits_are_those_of_transformers(name: str, folders: Any) -> None:
    folder, model, tokenizer = folders(name)
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    targets = torch.randint(4, 200, (len(TEXTS), 9))
    with torch.no_grad():
        theirs = model(batch.input_ids, batch.attention_mask, decoder_input_ids=targets).logits
        ours = load_checkpoint(folder).model(batch.input_ids, batch.attention_mask.bool(), targets)
    assert theirs.std() > 1
    assert (ours - theirs).abs().max() < 3e-5  # float32 sums in another order


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_beams": 1, **LIVELY},
        {"num_beams": 5, "num_return_sequences": 3, "length_penalty": 0.6, **LIVELY},
        {"num_beams": 2, "early_stopping": True, "renormalize_logits": True, "max_new_tokens": 9, **LIVELY},
        {"num_beams": 3, "min_new_tokens": 5, "suppress_tokens": [37, 39], "bad_words_ids": [[41], [42, 43]]},
        {"num_beams": 3, "early_stopping": "never", "length_penalty": -0.5, "no_repeat_ngram_size": 2, **LIVELY},
        {"num_beams": 2, "min_length": 6, "max_length": 11, "forced_eos_token_id": 2, "repetition_penalty": 1.3},
    ],
    ids=["defaults", "greedy", "n-best", "renormalized", "forbidden", "never", "lengths"],
)
@pytest.mark.parametrize("name", FOLDERS)
def test_tokens_scores_and_text_are_those_of_generate(name: str, options: dict[str, Any], pairs: Any) -> None:
    pair = pairs(name)
    say, told = target_options(pair, name, *MANY[name][0]) if name in MANY else ({}, {})
    pair.assert_same(TEXTS, ours=say | options, **told, **options)


@pytest.mark.parametrize("name", MANY)
def test_one_bundle_translates_between_several_languages(name: str, pairs: Any) -> None:
    pair = pairs(name)
    for source, target in MANY[name]:
        say, told = target_options(pair, name, source, target)
        pair.assert_same(TEXTS, ours=say | LIVELY, **told, **LIVELY)


def test_padding_on_the_left_does_not_shift_positions_of_m2m100(pairs: Any) -> None:
    pair = pairs("m2m100")
    say, told = target_options(pair, "m2m100", "en", "de")
    pair.tokenizer.padding_side = "left"
    try:
        pair.assert_same(TEXTS, ours=say | LIVELY, **told, **LIVELY)
    finally:
        pair.tokenizer.padding_side = "right"


@pytest.mark.parametrize("name", MANY)
def test_a_target_language_is_required_and_an_unknown_one_refused(name: str, pairs: Any) -> None:
    translator = pairs(name).translator
    with pytest.raises(UsageError, match=r"translates into \d+ languages: choose one with target_lang"):
        translator.translate(["hello"])
    with pytest.raises(UsageError, match="target_lang is 'dee', which this model does not know; similar ones are de"):
        translator.translate(["hello"], target_lang="dee")


def test_a_target_is_scored_after_its_language_tag(pairs: Any) -> None:
    pair = pairs("nllb")
    say, told = target_options(pair, "nllb", "deu_Latn", "fra_Latn")
    options = {"num_beams": 1, "max_new_tokens": 8}
    [made] = pair.translator.translate(TEXTS[:1], **say, **options)
    [score] = pair.translator.score(TEXTS[:1], [made.text], **say)
    assert pair.tokenizer.convert_tokens_to_ids("fra_Latn") not in score.tokens
    with torch.no_grad():
        batch = pair.tokenizer(TEXTS[:1], return_tensors="pt")
        target = torch.tensor([[2, told["forced_bos_token_id"], *score.tokens]])
        logits = pair.model(batch.input_ids, batch.attention_mask, decoder_input_ids=target[:, :-1]).logits
    wanted = logits.log_softmax(-1)[0].gather(1, target[0, 1:, None])[1:, 0]
    limit = score_limit(pair.translator.manifest.architecture, tokens=1, length_penalty=1.0)
    assert score.token_scores == pytest.approx(wanted.tolist(), abs=limit)


def test_marian_takes_the_language_tag_from_the_text_or_from_an_option(pairs: Any) -> None:
    pair = pairs("marian")
    tagged = [f">>fra<< {text}" for text in TEXTS]
    pair.assert_same(tagged, **LIVELY)
    by_name = pair.translator.translate(TEXTS, target_lang="fra", **LIVELY)
    assert [one.tokens for one in by_name] == [one.tokens for one in pair.translator.translate(tagged, **LIVELY)]
    with pytest.raises(UsageError, match="similar ones are deu"):
        pair.translator.translate(TEXTS, target_lang="deut")


def test_every_segment_of_a_long_text_keeps_its_tag(pairs: Any) -> None:
    pair = pairs("marian")
    options = {"num_beams": 1, "max_new_tokens": 6}
    [whole] = pair.translator.translate([">>fra<< " + "The old man sees a red house. " * 12], **options)
    [part] = pair.translator.translate([">>fra<< The old man sees a red house."], **options)
    assert whole.tokens == part.tokens * 12


class TestTokenizers:
    @pytest.mark.parametrize("name", sorted(AS_SENTENCEPIECE))
    def test_sentencepiece_gives_the_ids_and_the_text_of_transformers(self, name: str, folders: Any) -> None:
        folder, _, tokenizer = folders(name)
        assert_same_text(folder, tokenizer, LINES)

    def test_byte_level_bpe_needs_no_tokenizer_json(self, folders: Any) -> None:
        folder, _, tokenizer = folders("bart")
        assert not (folder / "tokenizer.json").exists()
        assert_same_text(folder, tokenizer, LINES)

    @pytest.mark.parametrize("name", sorted(FOLDERS.keys() - AS_SENTENCEPIECE))
    def test_a_tokenizer_json_is_used_unchanged(self, name: str, tmp_path: Path) -> None:
        write, tokenizer_class = FOLDERS[name]
        write(tmp_path / name)
        tokenizer = tokenizer_class.from_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        assert (tmp_path / name / "tokenizer.json").exists()
        assert_same_text(tmp_path / name, tokenizer, LINES)

    @pytest.mark.parametrize("name", sorted(CONVERTED))
    def test_a_single_sentencepiece_model_gives_the_ids_of_its_conversion(self, name: str, folders: Any) -> None:
        """Only for plain text, since the conversion by transformers has no normalization in mBART."""
        folder, _, tokenizer = folders(name)
        assert_same_text(folder, tokenizer, sentences(1000, seed=9), spaces="stripped")

    def test_nllb_with_only_a_sentencepiece_model_has_the_ids_of_its_training(self, tmp_path: Path) -> None:
        model = write_nllb(tmp_path / "nllb")
        (tmp_path / "nllb" / "tokenizer.json").unlink()
        original = load_checkpoint(tmp_path / "nllb").source_model()
        pieces = model.config.vocab_size - 1 - 202 - 1
        assert original.languages.codes["eng_Latn"] - pieces == 256047 - 256000  # in NLLB-200, which has 256,000
        cutter = SentencePieceProcessor(model_file=str(tmp_path / "nllb" / "sentencepiece.bpe.model"))
        wanted = [[number + 1 if number else 3 for number in cutter.encode(line)] for line in LINES]
        assert [ids[1:-1] for ids in original.tokenizer().encode(LINES)] == wanted


def test_outputs_differ_enough_for_a_comparison(folders: Any) -> None:
    for name in FOLDERS:
        _, model, tokenizer = folders(name)
        found = generate(model, tokenizer(TEXTS, padding=True, return_tensors="pt"), num_beams=3, **LIVELY).sequences
        assert len(found.unique(dim=0)) >= (4 if name == "marian-separate" else 7), name  # it reads English alone
        assert len(found.unique()) >= 12, name
