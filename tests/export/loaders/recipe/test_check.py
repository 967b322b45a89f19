"""``seq2edge recipe --check`` compares the translations of a recipe with those of the user's own program."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from tutorial_model import TARGET_WORDS, TEXTS, Saved, save_with_recipe, seeded_model

from seq2edge.cli.main import main
from seq2edge_export.loaders import load_checkpoint


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Saved:
    monkeypatch.chdir(tmp_path)
    return save_with_recipe(tmp_path, seeded_model())


@torch.inference_mode()
def expected(saved: Saved) -> list[str]:
    """The translations by the tutorial's own greedy decoding."""
    sources = load_checkpoint(saved.recipe).source_model().tokenizer().encode(TEXTS)
    outputs = [saved.model.greedy(source, max_len=20) for source in sources]
    return [" ".join(TARGET_WORDS[token] for token in output if token > 3) for output in outputs]


def check(*checks: str, recipe: str = "recipe.toml") -> Result:
    return CliRunner().invoke(main, ["recipe", recipe, *(part for one in checks for part in ("--check", one))])


def write_pairs(saved: Saved) -> list[str]:
    pairs = [f"{text}\t{translation}" for text, translation in zip(TEXTS, expected(saved), strict=True)]
    Path("pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    return pairs


def test_a_correct_recipe_passes(saved: Saved) -> None:
    pairs = write_pairs(saved)
    done = check("pairs.tsv", f"{pairs[0]} ")
    assert (done.exit_code, done.stdout) == (0, "recipe.toml: all 6 translations are as expected\n"), done.output


@pytest.mark.parametrize(
    ("setting", "wrong", "advice"),
    [
        ("heads = 4", "heads = 8", "they are equal if heads in [model] is 4 instead of 8"),
        ('activation = "relu"', 'activation = "silu"', "they are equal if activation in [model] is 'relu' instead of"),
        ("source_bos = true", "source_bos = false", "they are equal if source_bos in [tokenizer] is True instead of"),
    ],
)
def test_a_wrong_setting_is_noticed_and_named(saved: Saved, setting: str, wrong: str, advice: str) -> None:
    write_pairs(saved)
    text = saved.recipe.read_text(encoding="utf-8")
    assert setting in text
    saved.recipe.write_text(text.replace(setting, wrong), encoding="utf-8")
    done = check("pairs.tsv")
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: recipe.toml translates 'ein Hund")
    assert advice in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_no_setting_explains_gets_general_advice(saved: Saved) -> None:
    done = check("ein Hund\tsomething else")
    assert done.exit_code == 1
    assert "(1 of 1 differ): check [model], [tokens] and [tokenizer]" in done.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nowhere.tsv", "nowhere.tsv cannot be read"),
        ("words.de", "line 1 of words.de has 0 tabs"),
        ("a\tb\tc", "has 2 tabs"),
        ("empty", "empty has no lines"),
        ("ein " * 100 + "\tb", "source 1 has 102 tokens, but the model takes at most"),
    ],
)
def test_pairs_that_cannot_be_used_get_one_sentence(saved: Saved, given: str, message: str) -> None:
    Path("empty").touch()
    done = check(given)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_only_a_recipe_can_be_checked(saved: Saved) -> None:
    assert "--check compares a complete recipe" in check("a\tb", recipe="model.pt").stderr
    assert "recipe.toml has open questions" not in check("a\tb").stderr
