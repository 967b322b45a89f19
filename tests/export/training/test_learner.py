from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tolerances import log_probability_rounding, network_rounding, score_rounding, sum_rounding
from torch.nn import functional

from seq2edge.errors import UsageError
from seq2edge_export.training.checkpointing import TrainingProgress, read_state, restore, save_state
from seq2edge_export.training.config import Job
from seq2edge_export.training.data import Batch, Encoded, make_batch
from seq2edge_export.training.learner import Learner, orthogonal
from seq2edge_export.training.loss import CrossEntropy, summed_loss
from seq2edge_export.training.tokenizer import TOKENS

ROWS: list[Encoded] = [([5, 6, 7, 3], [8, 9, 3]), ([10, 3], [11, 12, 13, 14, 3]), ([15, 16, 3], [17, 3])]


def make_learner(make_job: Callable[..., Job], **changes: Any) -> Learner:
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
    one = whole.backward([batch_of(*ROWS)], step=1)
    two = parts.backward([batch_of(ROWS[0], ROWS[2]), batch_of(ROWS[1])], step=1)
    assert two.tokens == one.tokens == 10
    assert two.total == pytest.approx(one.total, abs=loss_limit(whole))
    largest = max(float(gradient.abs().max()) for gradient in gradients(whole).values())
    limit = 2 * network_rounding(whole.model.architecture, size=largest)  # forward and backward
    torch.testing.assert_close(gradients(parts), gradients(whole), rtol=0, atol=limit)


def test_threads_give_the_gradient_of_one_thread_with_the_same_dropout(make_job: Callable[..., Job]) -> None:
    batches = [batch_of(ROWS[0], ROWS[2]), batch_of(ROWS[1]), batch_of(*ROWS)]
    one, three = (make_learner(make_job, threads=threads, accumulate=3, dropout=0.5) for threads in (1, 3))
    assert [len(learner.replicas.all) for learner in (one, three)] == [1, 3]
    for step in (1, 2):
        losses = [learner.backward(batches, step=step) for learner in (one, three)]
        assert losses[0].tokens == losses[1].tokens
        assert losses[0].total == pytest.approx(losses[1].total, abs=loss_limit(one))
    largest = max(float(gradient.abs().max()) for gradient in gradients(one).values())
    limit = 2 * network_rounding(one.model.architecture, size=largest)  # forward and backward
    torch.testing.assert_close(gradients(three), gradients(one), rtol=0, atol=limit)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_optimizer_is_exact_in_threads(make_job: Callable[..., Job], optimizer: str) -> None:
    one, two = (make_learner(make_job, threads=threads, optimizer=optimizer) for threads in (1, 2))
    for step in (1, 2, 3):
        for learner in (one, two):
            learner.update([ROWS], step=step)  # of a single batch the gradients are the same
    torch.testing.assert_close(one.model.state_dict(), two.model.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_seed_gives_the_same_updates(make_job: Callable[..., Job], threads: int) -> None:
    weights = []
    for _ in range(2):
        learner = make_learner(make_job, threads=threads)
        for step in (1, 2, 3):
            learner.update([ROWS[:2], ROWS[2:]], step=step)
        weights.append(learner.model.state_dict())
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=0)


def test_matrices_decay_and_biases_and_norms_do_not(make_job: Callable[..., Job]) -> None:
    learner = make_learner(make_job, weight_decay=0.25)
    [adamw] = learner.optimizers
    decay, keep = adamw.param_groups
    assert (decay["weight_decay"], keep["weight_decay"]) == (0.25, 0.0)
    assert all(parameter.dim() == 2 for parameter in decay["params"])
    assert all(parameter.dim() == 1 for parameter in keep["params"])
    assert len(decay["params"]) + len(keep["params"]) == len(list(learner.model.parameters()))


def test_muon_updates_the_matrices_inside_the_layers_and_adamw_the_rest(make_job: Callable[..., Job]) -> None:
    learner = make_learner(make_job, optimizer="muon")
    names = {parameter: name for name, parameter in learner.model.named_parameters()}
    adamw, muon = ({names[p] for group in one.param_groups for p in group["params"]} for one in learner.optimizers)
    assert adamw | muon == set(names.values())
    assert not adamw & muon
    assert all(name.endswith("weight") and "norm" not in name and "embedding" not in name for name in muon)
    assert "encoder.0.feed_forward.inner.weight" in muon


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_an_orthogonal_update_has_singular_values_near_to_one(shape: tuple[int, int], dtype: torch.dtype) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    update = orthogonal(matrix.to(dtype)).float()
    values = torch.linalg.svdvals(update)
    assert values.min() > 0.5
    assert values.max() < 1.5
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    assert float((update * (u @ v)).sum()) > 0.5 * min(shape)  # the same directions


def test_muon_computes_in_the_precision_of_the_training(make_job: Callable[..., Job]) -> None:
    learner = make_learner(make_job, optimizer="muon", precision="bf16", dropout=0.0)
    losses = [learner.update([ROWS], step=step).total for step in range(1, 9)]
    assert losses[-1] < losses[0]
    assert all(parameter.dtype == torch.float32 for parameter in learner.model.parameters())


def test_with_muon_the_loss_falls_and_a_state_can_be_restored(make_job: Callable[..., Job], tmp_path: Path) -> None:
    job = make_job(tmp_path, optimizer="muon", dropout=0.0)
    first, second = (Learner(job.architecture, job.training, TOKENS) for _ in range(2))
    losses = [first.update([ROWS], step=step).total for step in range(1, 9)]
    assert losses[-1] < losses[0]
    save_state(tmp_path / "state.pt", TrainingProgress(step=8), first, job.settings)
    assert restore(read_state(tmp_path / "state.pt"), second).step == 8
    for learner in (first, second):
        learner.update([ROWS], step=9)
    torch.testing.assert_close(first.model.state_dict(), second.model.state_dict(), rtol=0, atol=0)


def test_the_state_of_the_first_release_had_one_optimizer(make_job: Callable[..., Job], tmp_path: Path) -> None:
    job = make_job(tmp_path)
    first, second = (Learner(job.architecture, job.training, TOKENS) for _ in range(2))
    first.update([ROWS], step=1)
    save_state(tmp_path / "state.pt", TrainingProgress(step=1), first, job.settings)
    state = read_state(tmp_path / "state.pt")
    state["optimizer"] = state["optimizer"][0]
    restore(state, second)
    assert second.optimizers[0].state_dict()["state"][0]["step"] == 1


def test_scheduled_sampling_feeds_the_model_its_own_tokens(make_job: Callable[..., Job]) -> None:
    learner = make_learner(make_job, scheduled_sampling=0.5, dropout=0.0)
    batch = batch_of(*ROWS * 20)
    own = learner._with_own_tokens(learner.replicas.all[0], batch)
    predicted = learner.model(batch.source, batch.source_mask, batch.target_input).argmax(-1)
    changed = own.target_input != batch.target_input
    assert 0.3 < changed[:, 1:].float().mean() < 0.7
    assert torch.equal(own.target_input[:, 1:][changed[:, 1:]], predicted[:, :-1][changed[:, 1:]])
    assert not changed[:, 0].any()
    assert torch.equal(own.target_output, batch.target_output)


def test_without_scheduled_sampling_a_batch_stays_as_it_is(make_job: Callable[..., Job]) -> None:
    learner, batch = make_learner(make_job), batch_of(*ROWS)
    assert learner._with_own_tokens(learner.replicas.all[0], batch) is batch


def test_a_large_gradient_is_clipped(make_job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch) -> None:
    learner, norms = make_learner(make_job, clip_norm=1e-3), []

    def record_norm(*_: object) -> None:
        norms.append(float(torch.stack([g.square().sum() for g in gradients(learner).values()]).sum().sqrt()))

    learner.optimizers[0].register_step_pre_hook(record_norm)
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


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_loss_and_gradient_are_those_of_pytorch(smoothing: float) -> None:
    random = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(40, 90, generator=random)).requires_grad_()
    targets = torch.randint(90, (40,), generator=random)
    targets[::5] = TOKENS.pad
    expected = functional.cross_entropy(
        logits, targets, ignore_index=TOKENS.pad, label_smoothing=smoothing, reduction="sum"
    )
    found = CrossEntropy.apply(logits, targets, TOKENS.pad, smoothing)
    size = float(logits.detach().abs().max())
    torch.testing.assert_close(found, expected, rtol=0, atol=40 * log_probability_rounding(sum_rounding(90, size)))
    gradients = [torch.autograd.grad(7 * loss, [logits])[0] for loss in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=0, atol=7 * sum_rounding(90, 1.0))  # probabilities add up to 1


def test_the_gradient_of_bfloat16_logits_is_bfloat16() -> None:
    logits = torch.randn(6, 9, dtype=torch.bfloat16, requires_grad=True)
    loss = CrossEntropy.apply(logits, torch.arange(6), TOKENS.pad, 0.0)
    [gradient] = torch.autograd.grad(loss, [logits])
    assert loss.dtype == torch.float32
    assert gradient.dtype == torch.bfloat16


def test_a_loss_that_is_not_finite_stops_the_training_and_keeps_the_weights(make_job: Callable[..., Job]) -> None:
    learner = make_learner(make_job)
    with torch.no_grad():
        learner.model.decoder_norm.weight[0] = float("inf")
    before = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    with pytest.raises(UsageError, match=r"update 7 has a loss of nan.*lower --learning-rate"):
        learner.update([ROWS], step=7)
    torch.testing.assert_close(learner.model.state_dict(), before, rtol=0, atol=0)
