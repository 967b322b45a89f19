"""Export the model of PyTorch's translation tutorial with a recipe, and compare its tokens."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from tolerances import network_rounding
from tutorial_model import TEXTS, Saved, save_with_recipe, seeded_model

from seq2edge import Translator
from seq2edge.bundle.bundle import Dialect, load_bundle
from seq2edge.cli.main import main
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import load_checkpoint


@pytest.fixture(scope="module", params=[False, True], ids=["norm-last", "norm-first"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    changes = {"norm_first = false": "norm_first = true"} if request.param else {}
    return save_with_recipe(tmp_path_factory.mktemp("tutorial"), seeded_model(norm_first=request.param), changes)


@torch.inference_mode()
def test_the_bundle_translates_as_the_tutorials_greedy_decode(saved: Saved, tmp_path: Path) -> None:
    dialect: Dialect = "portable" if "norm_first = true" in saved.recipe.read_text() else "ort"
    export_bundle(saved.recipe, tmp_path / "bundle", dialect=dialect, compare=False)
    translator = Translator(tmp_path / "bundle", threads=1)
    sources = translator.tokenizer.encode(TEXTS)
    expected = [saved.model.greedy(source, max_len=20) for source in sources]
    results = translator.translate(TEXTS, num_beams=1)
    assert [list(result.tokens) for result in results] == expected
    assert len({result.text for result in results}) > 2  # the comparison says something


@torch.inference_mode()
def test_the_model_computes_the_tutorials_logits(saved: Saved) -> None:
    checkpoint = load_checkpoint(saved.recipe)
    source = torch.tensor([checkpoint.source_model().tokenizer().encode(TEXTS)[0]])
    target = torch.tensor([[2, 5, 9, 4, 7]])
    logits = checkpoint.model(source, source > -1, target)
    limit = network_rounding(checkpoint.model.architecture, size=10)
    torch.testing.assert_close(logits, saved.model.logits(source, target), atol=limit, rtol=0)


def test_the_commands_lead_from_state_dict_to_translation(tmp_path: Path) -> None:
    saved = save_with_recipe(tmp_path, seeded_model())
    weights, bundle = str(tmp_path / "model.pt"), str(tmp_path / "bundle")
    texts = tmp_path / "texts"
    texts.write_text("\n".join(TEXTS[:2]) + "\n", encoding="utf-8")
    for arguments in (
        ["recipe", weights],
        ["export", str(saved.recipe), bundle, "--family", "recipe", "--no-verify"],
        ["verify", bundle, "--against", str(saved.recipe), "--input", str(texts)],
        ["translate", "-m", bundle, "--threads", "1", "ein Hund."],
        ["inspect", bundle],
    ):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
    assert load_bundle(tmp_path / "bundle").manifest.family == "recipe"
    assert (tmp_path / "model.toml").read_text(encoding="utf-8").count('"?"') == 9  # eight questions and the header
