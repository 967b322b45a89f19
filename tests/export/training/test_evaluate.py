from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tolerances import log_probability_rounding, network_rounding

from seq2edge_export.model.transformer import Transformer
from seq2edge_export.training import evaluate
from seq2edge_export.training.config import Job
from seq2edge_export.training.data import Encoded
from seq2edge_export.training.evaluate import DevSet, bleu_noise, dev_bleu, dev_loss
from seq2edge_export.training.tokenizer import TOKENS

ROWS: list[Encoded] = [([5, 6, 7, 3], [8, 9, 3]), ([10, 3], [11, 12, 13, 14, 3]), ([15, 16, 3], [17, 3])]


def dev_set(references: list[str], **options: Any) -> DevSet:
    return DevSet(ROWS, references, None, TOKENS, **options)  # type: ignore[arg-type]  # nothing is encoded here


@torch.inference_mode()
def test_the_dev_loss_is_the_mean_over_tokens_however_they_are_batched(
    make_job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Transformer(make_job(Path("unused")).architecture, seed=1).eval()
    total = 0.0
    for source, target in ROWS:
        ids, shifted = torch.tensor([source]), torch.tensor([[TOKENS.bos, *target[:-1]]])
        scores = model(ids, torch.ones_like(ids, dtype=torch.bool), shifted).log_softmax(-1)[0]
        total -= float(scores[range(len(target)), target].sum())
    for batch_tokens in (1, 4096):
        monkeypatch.setattr(evaluate, "BATCH_TOKENS", batch_tokens)
        limit = log_probability_rounding(network_rounding(model.architecture, size=4))
        assert dev_loss(model, dev_set([])) == pytest.approx(total / 10, abs=limit)


def test_bleu_compares_translations_with_the_references(monkeypatch: pytest.MonkeyPatch) -> None:
    references = ["the cat sees the old dog .", "a bird hears nothing at all ."]  # tokenized, but there is no warning
    monkeypatch.setattr(evaluate, "translate", lambda *_: references)
    assert dev_bleu(None, dev_set(references)) == pytest.approx(100)  # type: ignore[arg-type]
    monkeypatch.setattr(evaluate, "translate", lambda *_: ["something else", ""])
    assert dev_bleu(None, dev_set(references)) < 5  # type: ignore[arg-type]


def test_the_bleu_tokenizer_for_chinese_compares_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "translate", lambda *_: ["猫看见一只老狗在树下"])
    references = ["猫看见一只老狗在屋里"]
    assert dev_bleu(None, dev_set(references, bleu_tokenizer="zh")) > 50  # type: ignore[arg-type]
    assert dev_bleu(None, dev_set(references)) < 5  # type: ignore[arg-type]


@pytest.mark.parametrize(("sentences", "noise"), [(1, 100), (25, 50), (2500, 5)])
def test_a_larger_dev_set_measures_a_lower_bleu(sentences: int, noise: float) -> None:
    references = ["the cat sees the old red dog"] * sentences  # four 4-grams each
    assert bleu_noise(dev_set(references)) == pytest.approx(noise)


def test_a_dev_set_without_4_grams_never_measures_bleu() -> None:
    assert bleu_noise(dev_set(["a cat", ""])) == 100
