"""Compare ids and text of ten thousand lines in many scripts with the tokenizers of transformers."""

from pathlib import Path

import pytest
import t5_folder
from hugging_face_folders import AS_SENTENCEPIECE, CONVERTED, FOLDERS, assert_same_text
from scripts_text import lines, sentences
from transformers import T5Tokenizer

from seq2edge.text.tokenizer import Tokenizer
from seq2edge_export.loaders import load_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")]
COUNT = 10_000
T5 = {"t5", "t5-v1.1", "mt5"}


@pytest.mark.parametrize("name", sorted({*AS_SENTENCEPIECE, "bart"}))
def test_the_files_of_the_folder_give_the_ids_and_the_text_of_transformers(name: str, tmp_path: Path) -> None:
    write, tokenizer = FOLDERS[name]
    write(tmp_path / name)
    assert_same_text(tmp_path / name, tokenizer.from_pretrained(tmp_path / name), lines(COUNT, seed=11))


@pytest.mark.parametrize("name", sorted(FOLDERS.keys() - AS_SENTENCEPIECE))
def test_a_tokenizer_json_is_used_unchanged(name: str, tmp_path: Path) -> None:
    write, tokenizer_class = FOLDERS[name]
    write(tmp_path / name)
    tokenizer = tokenizer_class.from_pretrained(tmp_path / name)
    tokenizer.save_pretrained(tmp_path / name)
    (tmp_path / name / "spiece.model").unlink(missing_ok=True)
    assert_same_text(tmp_path / name, tokenizer, lines(COUNT, seed=12))


@pytest.mark.parametrize("name", sorted(CONVERTED))
def test_a_single_sentencepiece_model_gives_the_ids_of_its_conversion(name: str, tmp_path: Path) -> None:
    """SentencePiece and its conversion may choose differently between equally likely splits, such as a+aa and aa+a."""
    write, tokenizer_class = FOLDERS[name]
    write(tmp_path / name)
    theirs, texts = tokenizer_class.from_pretrained(tmp_path / name), sentences(COUNT, seed=13)
    ours = load_checkpoint(tmp_path / name).source_model().tokenizer()
    ids, wanted = ours.encode(texts), theirs(texts).input_ids
    ties = [place for place in range(COUNT) if ids[place] != wanted[place]]
    assert len(ties) <= 2
    assert all(sorted(ids[place]) == sorted(wanted[place]) for place in ties)
    assert ours.decode(ids) == [theirs.decode(row, skip_special_tokens=True).strip() for row in ids]


@pytest.mark.parametrize("name", sorted(T5))
def test_the_pieces_of_t5_give_the_ids_and_the_text_of_transformers(name: str, tmp_path: Path) -> None:
    FOLDERS[name][0](tmp_path / name)
    ours: Tokenizer = load_checkpoint(tmp_path / name).source_model().tokenizer()
    theirs = T5Tokenizer.from_pretrained(tmp_path / name)
    texts = t5_folder.lines(COUNT, seed=14)
    ids = ours.encode(texts)
    assert ids == theirs(texts).input_ids
    assert ours.decode(ids) == theirs.batch_decode(ids, skip_special_tokens=True)
