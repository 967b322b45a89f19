"""Refuse recipes that do not match their weights with one error, before anything is written."""

import pickle
from pathlib import Path

import pytest
import torch
from tutorial_model import Saved, save_with_recipe, seeded_model

from seq2edge.errors import CheckpointError, UsageError
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.loaders.state_dict import read_state_dict


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return save_with_recipe(tmp_path, seeded_model())


def change(saved: Saved, old: str, new: str) -> None:
    text = saved.recipe.read_text(encoding="utf-8")
    assert old in text
    saved.recipe.write_text(text.replace(old, new), encoding="utf-8")


def refusal(saved: Saved) -> str:
    bundle = saved.recipe.with_name("bundle")
    with pytest.raises(CheckpointError) as caught:
        export_bundle(saved.recipe, bundle)
    assert not bundle.exists()
    return str(caught.value)


def test_everything_that_does_not_match_is_in_one_error(saved: Saved) -> None:
    state = saved.model.state_dict()
    del state["transformer.encoder.layers.1.norm2.weight"]
    state["aligner.weight"] = torch.zeros(3)
    state["transformer.decoder.layers.0.self_attn.in_proj_weight"] = torch.zeros(40, 16)
    state["transformer.decoder.layers.1.linear1.bias"][3] = torch.nan
    state["generator.bias"] = torch.zeros(19, dtype=torch.int64)
    torch.save(state, saved.recipe.with_name("model.pt"))
    change(saved, "heads = 4", "heads = 5")
    change(saved, "eos = 3", "eos = 13")
    change(saved, "max_positions = 60", "max_positions = 61")
    with saved.recipe.with_name("words.de").open("a", encoding="utf-8") as words:
        words.write("zuviel\n")
    message = refusal(saved)
    for part in (
        "width 16 is not divisible by 5 heads",
        "transformer.encoder.layers.1.norm2.weight is missing",
        "aligner.weight is unexpected",
        "in_proj_weight has shape (40, 16), expected (48, 16)",
        "transformer.decoder.layers.1.linear1.bias contains NaN or infinity",
        "generator.bias has dtype torch.int64, expected floating point",
        "pos_embedding has shape (60, 1, 16), expected (61 or more, 16)",
        "tokens.eos is 13, but the ids of the model are 0 to 12",
        "words.de has 14 tokens, but the model has 13",
    ):
        assert part in message
    assert message.count(";") == 9


def test_open_questions_are_named(saved: Saved) -> None:
    change(saved, "heads = 4", 'heads = "?"')
    change(saved, "pad = 1", 'pad = "?"')
    assert 'has open questions: replace the "?" of model.heads, tokens.pad with a value' in refusal(saved)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("heads = 4", "heads = 4\nnhead = 4", "unknown key 'nhead'"),
        ("heads = 4", 'heads = "four"', "recipe.model.heads is 'four', which is not int"),
        ("heads = 4", "heads = 0", "heads is 0, but must be at least 1"),
        ("norm_epsilon = 1e-05", "norm_epsilon = nan", "norm_epsilon is nan, but must be between 0 and 1"),
        ('embedding_scale = "sqrt"', "embedding_scale = inf", "embedding_scale is inf, but must be a number"),
        ("heads = 4", "", "recipe.model lacks the key 'heads'"),
        ('activation = "relu"', 'activation = "tanh"', "not one of 'relu', 'gelu', 'silu'"),
        ('kind = "sinusoidal"', 'kind = "sinusoidal_halves"', "is not the table of sinusoidal_halves positions"),
        ('weights = "model.pt"', 'weights = "model.bin"', "model.bin is not a file"),
        ('output = "generator.weight"', 'output = "head.weight"', "no matrix named head.weight"),
        ('kind = "words"', 'kind = "bpe"', "source_codes and target_codes are required for the kinds 'bpe'"),
        ("max_new_tokens = 20", "max_new_tokens = 70", "generation.max_new_tokens is 70, but positions.max_positions"),
        ("ignore = []", 'ignore = ["gone"]', "tensors.ignore names gone, which does not exist"),
        ('source = "words.de"', 'source = "model.pt"', "model.pt is not a vocabulary"),
        ("format_version = 1", "format_version = 2", "format_version is 2, but this seq2edge reads 1"),
        ("format_version = 1", "format_version 1", "is not TOML in UTF-8"),
    ],
)
def test_an_invalid_line_is_refused(saved: Saved, old: str, new: str, words: str) -> None:
    change(saved, old, new)
    assert words in refusal(saved)


def test_unused_tensors_can_be_ignored(saved: Saved) -> None:
    state = saved.model.state_dict() | {"aligner.weight": torch.zeros(3)}
    torch.save(state, saved.recipe.with_name("model.pt"))
    change(saved, "ignore = []", 'ignore = ["aligner.weight"]')
    assert load_checkpoint(saved.recipe).family == "recipe"


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("evil"),)  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["module", "pickle", "torch", "cut"])
def test_a_file_that_would_run_code_or_is_broken_is_refused_with_how_to_convert(saved: Saved, kind: str) -> None:
    path = saved.recipe.with_name("model.pt")
    if kind == "module":
        torch.save(saved.model, path)
    elif kind == "pickle":
        path.write_bytes(pickle.dumps(Evil()))
    elif kind == "torch":
        torch.save({"state_dict": saved.model.state_dict(), "setup": Evil()}, path)
    else:
        path.write_bytes(path.read_bytes()[:2000])
    message = refusal(saved)
    assert ("is broken" if kind == "cut" else "code from a file is never run") in message
    assert "torch.save(model.state_dict(), 'weights.pt')" in message
    assert not Path("evil").exists()


@pytest.mark.parametrize("content", [{"epoch": 3}, [1, 2], {"model": 4}, torch.zeros(3), {1: torch.ones(2)}])
def test_a_file_without_named_tensors_is_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="holds no tensors by name"):
        read_state_dict(tmp_path / "model.pt")


def test_the_keys_of_a_file_without_a_state_dict_are_listed(tmp_path: Path) -> None:
    torch.save({"epoch": 3, "optimizer": {"state": {}}, "mine": {"a": torch.ones(2, 2)}}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match=r"its keys are 'epoch' \(int\), 'optimizer' \(dict\), 'mine' \(dict\); "):
        read_state_dict(tmp_path / "model.pt")
    torch.save({str(number): number for number in range(1000)}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match=r"'19' \(int\) and 980 more; "):
        read_state_dict(tmp_path / "model.pt")


@pytest.mark.parametrize(
    "keys", [["net"], ["model"], ["ema"], ["model", "state_dict"], ["ema", "shadow"], ["state_dict", "net", "module"]]
)
def test_a_state_dict_is_found_under_usual_keys(tmp_path: Path, keys: list[str]) -> None:
    weights = {"layer.weight": torch.ones(2, 2), "layer.bias": torch.ones(2)}
    content: dict[str, object] = weights
    for key in reversed(keys):
        content = {"epoch": 3, "updates": torch.tensor(7), key: content}  # a number may be a tensor
    torch.save(content, tmp_path / "model.pt")
    assert read_state_dict(tmp_path / "model.pt").keys() == weights.keys()


def test_a_file_that_contains_itself_is_refused(tmp_path: Path) -> None:
    content: dict[str, object] = {"epoch": 3}
    content["model"] = content["net"] = content["ema"] = content
    torch.save(content, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="holds no tensors by name"):
        read_state_dict(tmp_path / "model.pt")


def test_vectors_alone_are_a_state_dict(tmp_path: Path) -> None:
    torch.save({"bias": torch.ones(2)}, tmp_path / "model.pt")  # the last part of a large model, say
    assert read_state_dict(tmp_path / "model.pt").keys() == {"bias"}


def test_the_error_for_a_state_dict_explains_how_to_draft_a_recipe(saved: Saved) -> None:
    weights = saved.recipe.with_name("model.pt")
    with pytest.raises(CheckpointError, match=f"draft a recipe with  seq2edge recipe {weights}"):
        load_checkpoint(weights)
    with pytest.raises(CheckpointError, match="nowhere does not exist"):
        load_checkpoint(saved.recipe.with_name("nowhere"))
    with pytest.raises(UsageError, match=r"there is no family 'other', expected one of .*recipe.*, seq2edge"):
        load_checkpoint(weights, family="other")
