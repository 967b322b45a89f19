"""The attention that ``seq2edge explain`` reads from a bundle is that of the PyTorch model."""

from pathlib import Path

import numpy as np
import pytest
import t5_folder
import torch
from tolerances import network_rounding

from seq2edge import Translator
from seq2edge.bundle.bundle import Dialect
from seq2edge.explain.explanation import Explanation, explain
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.export import export_bundle
from seq2edge_export.loaders import load_checkpoint
from seq2edge_export.model.layers import MultiHeadAttention

ROOT = Path(__file__).parents[2]
TEXT = "the old man sees a red house."


@torch.inference_mode()
def torch_weights(checkpoint: Checkpoint, one: Explanation, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """Return the weights of every head with the whole target at once, without padding and without a cache."""
    model, weights, compute = checkpoint.model.eval(), list[np.ndarray](), MultiHeadAttention._weights

    def recorded(self: MultiHeadAttention, *arguments: object) -> torch.Tensor:
        found = compute(self, *arguments)  # type: ignore[arg-type]
        weights.append(found[0].numpy())
        return found

    monkeypatch.setattr(MultiHeadAttention, "_weights", recorded)
    source = torch.tensor([one.source])
    model(source, torch.ones_like(source, dtype=torch.bool), torch.tensor([one.inputs]))
    encoder, decoder = weights[: len(model.encoder)], weights[len(model.encoder) :]
    kinds = {"encoder": encoder, "cross": decoder}
    if model.architecture.decoder_cell == "attention":
        kinds |= {"decoder": decoder[0::2], "cross": decoder[1::2]}
    return {kind: np.stack(layers) for kind, layers in kinds.items()}


def check(checkpoint: Checkpoint, bundle: Path, monkeypatch: pytest.MonkeyPatch, text: str = TEXT, **options) -> None:
    one = explain(Translator(bundle, threads=1), text, split="none", **options)
    expected = torch_weights(checkpoint, one, monkeypatch)
    assert {maps.kind for maps in one.replay.attention} == expected.keys()
    shape = checkpoint.model.architecture
    finite = [maps.scores[np.isfinite(maps.scores)] for maps in one.replay.attention]
    size = max(float(np.abs(values).max()) for values in (one.replay.logits, *finite))
    # a weight is the softmax of scores, which are sums along the way to the logits; a softmax at most halves errors
    rounding = network_rounding(shape, size, length=max(32, len(one.inputs)))
    for maps in one.replay.attention:
        columns = expected[maps.kind].shape[3]
        np.testing.assert_allclose(maps.weights[..., :columns], expected[maps.kind], rtol=0, atol=rounding)
        assert not maps.weights[..., columns:].any()  # padding


def test_the_weights_of_both_dialects_are_those_of_the_source_model(
    made, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(load_checkpoint(made.checkpoint), bundle, monkeypatch)


def test_the_weights_of_a_recurrent_decoder_are_those_of_the_source_model(
    student, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(load_checkpoint(student.checkpoint), student.bundles["ort"], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["ort", "portable"])
def test_the_weights_with_relative_positions_are_those_of_the_source_model(
    tmp_path: Path, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = t5_folder.write_t5(tmp_path / "t5")
    bundle = export_bundle(folder, tmp_path / "bundle", dialect=dialect, compare=False)
    check(load_checkpoint(folder), bundle.folder, monkeypatch)


def test_the_weights_of_the_default_checkpoint_are_those_of_its_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = export_bundle(ROOT / "models" / "en-pt", tmp_path / "fp32", compare=False)
    checkpoint = load_checkpoint(ROOT / "models" / "en-pt")
    check(checkpoint, bundle.folder, monkeypatch, "She would like to buy a ticket to the old town.")
