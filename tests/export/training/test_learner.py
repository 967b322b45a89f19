from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tolerances import log_probability_rounding, network_rounding, score_rounding

from seq2edge.errors import UsageError
from seq2edge_export.training.config import Job
from seq2edge_export.training.data import Batch, Encoded, make_batch
from seq2edge_export.training.evaluate import summed_loss
from seq2edge_export.training.learner import Learner
from seq2edge_export.training.tokenizer import TOKENS

ROWS: list[Encoded] = [([5, 6, 7, 3], [8, 9, 3]), ([10, 3], [11, 12, 13, 14, 3]), ([15, 16, 3], [17, 3])]


def make_learner(make_job: Callable[..., Job], **changes: float) -> Learner:
    job = make_job(Path("unused"), **changes)
    return Learner(job.architecture, job.training, TOKENS)


def batch_of(*rows: Encoded) -> Batch:
    return make_batch(list(rows), pad=TOKENS.pad, start=TOKENS.bos)


def loss_limit(learner: Learner) -> float:
    """Bound the difference of a summed loss: at most 10 tokens, with logits of about 4."""
    return score_rounding(10, log_probability_rounding(network_rounding(learner.model.architecture, size=4)))


def gradients(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: parameter.grad for name, parameter in learner.model.named_parameters()}


def test_accumulated_batches_give_the_gradient_of_one_big_batch(make_job: Callable[..., Job]) -> None:
    whole, parts = make_learner(make_job, dropout=0.0), make_learner(make_job, dropout=0.0)
    one = whole.backward([batch_of(*ROWS)])
    two = parts.backward([batch_of(ROWS[0], ROWS[2]), batch_of(ROWS[1])])
    assert two.tokens == one.tokens == 10
    assert two.total == pytest.approx(one.total, abs=loss_limit(whole))
    largest = max(float(gradient.abs().max()) for gradient in gradients(whole).values())
    limit = 2 * network_rounding(whole.model.architecture, size=largest)  # forward and backward
    torch.testing.assert_close(gradients(parts), gradients(whole), rtol=0, atol=limit)


def test_the_same_seed_gives_the_same_updates(make_job: Callable[..., Job]) -> None:
    weights = []
    for _ in range(2):
        learner = make_learner(make_job)
        for step in (1, 2, 3):
            learner.update([ROWS[:2], ROWS[2:]], step=step)
        weights.append(learner.model.state_dict())
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=0)


def test_matrices_decay_and_biases_and_norms_do_not(make_job: Callable[..., Job]) -> None:
    learner = make_learner(make_job, weight_decay=0.25)
    decay, keep = learner.optimizer.param_groups
    assert (decay["weight_decay"], keep["weight_decay"]) == (0.25, 0.0)
    assert all(parameter.dim() == 2 for parameter in decay["params"])
    assert all(parameter.dim() == 1 for parameter in keep["params"])
    assert len(decay["params"]) + len(keep["params"]) == len(list(learner.model.parameters()))


def test_a_large_gradient_is_clipped(make_job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch) -> None:
    learner, norms = make_learner(make_job, clip_norm=1e-3), []

    def record_norm(*_: object) -> None:
        norms.append(float(torch.stack([g.square().sum() for g in gradients(learner).values()]).sum().sqrt()))

    learner.optimizer.register_step_pre_hook(record_norm)
    learner.update([ROWS], step=1)
    assert norms == [pytest.approx(1e-3, rel=1e-2)]


def test_padding_adds_nothing_to_the_loss(make_job: Callable[..., Job]) -> None:
    learner = make_learner(make_job, dropout=0.0)
    together = summed_loss(learner.model, batch_of(*ROWS), pad=TOKENS.pad, label_smoothing=0.1)
    alone = sum(summed_loss(learner.model, batch_of(row), pad=TOKENS.pad, label_smoothing=0.1) for row in ROWS)
    torch.testing.assert_close(together, alone, rtol=0, atol=loss_limit(learner))


def test_label_smoothing_spreads_the_target_over_the_vocabulary(make_job: Callable[..., Job]) -> None:
    learner, batch = make_learner(make_job, dropout=0.0), batch_of(ROWS[0])
    scores = learner.model(batch.source, batch.source_mask, batch.target_input).log_softmax(-1)[0]
    chosen = scores[range(3), batch.target_output[0]].sum()
    expected = -(0.8 * chosen + 0.2 * scores.mean(-1).sum())
    found = summed_loss(learner.model, batch, pad=TOKENS.pad, label_smoothing=0.2)
    torch.testing.assert_close(found, expected, rtol=0, atol=loss_limit(learner))


def test_a_loss_that_is_not_finite_stops_the_training_and_keeps_the_weights(make_job: Callable[..., Job]) -> None:
    learner = make_learner(make_job)
    with torch.no_grad():
        learner.model.decoder_norm.weight[0] = float("inf")
    before = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    with pytest.raises(UsageError, match=r"update 7 has a loss of nan.*lower --learning-rate"):
        learner.update([ROWS], step=7)
    torch.testing.assert_close(learner.model.state_dict(), before, rtol=0, atol=0)
