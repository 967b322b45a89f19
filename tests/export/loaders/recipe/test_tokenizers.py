"""Use every kind of tokenizer in a recipe."""

from pathlib import Path

import pytest
import sentencepiece
from tiny_checkpoint import SENTENCES
from tutorial_model import Saved, save_with_recipe, seeded_model

from seq2edge.config.tokenizer import Tokenization
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.loaders.tokenizer_files import with_bundle_names

SPECIAL = "<unk>\n<pad>\n<bos>\n<eos>\n"


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return save_with_recipe(tmp_path, seeded_model())


def ids(saved: Saved, text: str, **settings: object) -> list[int]:
    """Replace the section ``[tokenizer]`` of the recipe and return source ids."""
    recipe = saved.recipe.read_text(encoding="utf-8")
    head, tail = recipe[: recipe.index("[tokenizer]")], recipe[recipe.index("[generation]") :]
    table = "".join(f"{key} = {value!r}\n" for key, value in settings.items())
    saved.recipe.write_text(f"{head}[tokenizer]\n{table}\n{tail}", encoding="utf-8")
    return load_checkpoint(saved.recipe).source_model().tokenizer().encode([text])[0]


def test_a_recipe_with_characters(saved: Saved) -> None:
    saved.recipe.with_name("letters").write_text(SPECIAL + "a\nb\n \n", encoding="utf-8")
    assert ids(saved, "ab ba!", kind="characters", source="letters", target="letters") == [4, 5, 6, 5, 4, 0, 3]


def test_a_recipe_with_byte_pair_codes_from_a_folder(saved: Saved) -> None:
    folder = saved.recipe.with_name("bpe")
    folder.mkdir()
    (folder / "vocabulary").write_text(SPECIAL + "ab\nab@@\na\n", encoding="utf-8")
    (folder / "codes").write_text("#version: 0.2\na b</w>\na b\n", encoding="utf-8")
    names = {"source": "bpe/vocabulary", "target": "bpe/vocabulary"}
    codes = {"source_codes": "bpe/codes", "target_codes": "bpe/codes"}
    assert ids(saved, "ab aba", kind="bpe", **names, **codes) == [4, 5, 6, 3]


def test_a_recipe_with_sentencepiece_whose_vocabulary_is_too_large(saved: Saved) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_prefix=str(saved.recipe.with_name("pieces")),
        vocab_size=60,
        minloglevel=2,
    )
    with pytest.raises(CheckpointError, match=r"pieces\.model has 60 tokens, but the model has 13"):
        ids(saved, "a dog", kind="sentencepiece", source="pieces.model", target="pieces.model")


def test_files_get_plain_names_that_keep_the_suffix(tmp_path: Path) -> None:
    apart = Tokenization(source="de/vocab.json", target="en/vocab.json", kind="words")
    tokenization, files = with_bundle_names(apart, tmp_path)
    assert (tokenization.source, tokenization.target) == ("source.tokenizer.json", "target.tokenizer.json")
    assert files[tokenization.target] == tmp_path / "en" / "vocab.json"
    joint = Tokenization(source="v.txt", target="v.txt", kind="bpe", source_codes="a.codes", target_codes="b.codes")
    tokenization, files = with_bundle_names(joint, tmp_path)
    assert sorted(files) == ["source.codes.codes", "target.codes.codes", "tokenizer.txt"]
