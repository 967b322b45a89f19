"""Draft recipes: the parts found in a state dict, and the open questions."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from tutorial_model import seeded_model

from seq2edge.cli.main import main
from seq2edge.errors import CheckpointError
from seq2edge_export.loaders.recipe.draft import draft_recipe, inspect_state

State = dict[str, torch.Tensor]


@pytest.fixture
def state() -> State:
    return dict(seeded_model().state_dict())


def draft(folder: Path, content: Any) -> dict[str, Any]:
    torch.save(content, folder / "model.pt")
    return tomllib.loads(draft_recipe(folder / "model.pt", folder / "recipe.toml"))


def test_every_part_of_the_tutorials_model_is_found(tmp_path: Path, state: State) -> None:
    found = draft(tmp_path, state)
    assert found["weights"] == "model.pt"
    assert found["tensors"] == {
        "encoder": "transformer.encoder",
        "decoder": "transformer.decoder",
        "source_embedding": "src_tok_emb.embedding.weight",
        "target_embedding": "tgt_tok_emb.embedding.weight",
        "output": "generator.weight",
        "output_bias": "generator.bias",
        "ignore": [],
    }
    table = "positional_encoding.pos_embedding"
    assert found["positions"] == {
        "kind": "sinusoidal",
        "source": table,
        "target": table,
        "offset": 0,
        "max_positions": 60,
    }
    assert found["model"]["heads"] == "?"
    assert found["model"]["bias"] is True


def test_a_nested_state_dict_is_found(tmp_path: Path, state: State) -> None:
    plain = draft(tmp_path, state)
    parallel = {f"module._orig_mod.{name}": tensor for name, tensor in state.items()}
    assert draft(tmp_path, parallel) == plain
    assert draft(tmp_path, {"epoch": 3, "model_state_dict": state, "optimizer": {"state": {}}}) == plain
    save_file(state, tmp_path / "model.safetensors")
    read = tomllib.loads(draft_recipe(tmp_path / "model.safetensors", tmp_path / "recipe.toml"))
    assert read["tensors"] == plain["tensors"]


def test_a_table_that_matches_no_formula_is_learned(state: State) -> None:
    state["positional_encoding.pos_embedding"] += 0.1
    assert inspect_state(state).position_kind == "learned"


def test_both_sinusoidal_layouts_are_recognized(state: State) -> None:
    table = state["positional_encoding.pos_embedding"]
    state["positional_encoding.pos_embedding"] = torch.cat([table[..., 0::2], table[..., 1::2]], dim=-1)
    assert inspect_state(state).position_kind == "sinusoidal_halves"


def test_two_position_tables_are_assigned_to_their_sides(state: State) -> None:
    table = state.pop("positional_encoding.pos_embedding").squeeze(1)
    state |= {"decoder_pos.weight": table + 1, "encoder_pos.weight": table + 2}
    found = inspect_state(state)
    assert (found.source_positions, found.target_positions) == ("encoder_pos.weight", "decoder_pos.weight")


def test_one_embedding_serves_both_sides_and_the_output(state: State) -> None:
    for name in ("generator.weight", "generator.bias", "src_tok_emb.embedding.weight"):
        del state[name]
    found = inspect_state(state)
    only = "tgt_tok_emb.embedding.weight"
    assert (found.source_embedding, found.target_embedding, found.output, found.output_bias) == (only, only, only, "")


def test_unused_tensors_are_named(tmp_path: Path, state: State) -> None:
    state["aligner.weight"] = torch.zeros(3, 5)
    torch.save(state, tmp_path / "model.pt")
    text = draft_recipe(tmp_path / "model.pt", tmp_path / "recipe.toml")
    assert "TODO unused tensors, to be named here if they are not needed: aligner.weight" in text


def test_a_model_of_another_kind_is_refused() -> None:
    with pytest.raises(CheckpointError, match="has 0 encoders and 0 decoders whose tensors are named as in"):
        inspect_state({"layer.weight": torch.zeros(2, 2)})


def test_weights_in_another_folder_are_found_from_the_recipe(tmp_path: Path, state: State) -> None:
    (tmp_path / "runs").mkdir()
    torch.save(state, tmp_path / "runs" / "model.pt")
    text = draft_recipe(tmp_path / "runs" / "model.pt", tmp_path / "recipe.toml")
    assert tomllib.loads(text)["weights"] == "runs/model.pt"


def test_a_recipe_that_exists_is_not_overwritten(tmp_path: Path, state: State) -> None:
    torch.save(state, tmp_path / "model.pt")
    (tmp_path / "model.toml").write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(main, ["recipe", str(tmp_path / "model.pt")])
    assert done.exit_code == 2
    assert "exists already" in done.output
    assert (tmp_path / "model.toml").read_text(encoding="utf-8") == "mine"
