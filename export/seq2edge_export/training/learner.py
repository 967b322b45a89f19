"""Update a model with AdamW, or with Muon for the matrices inside its layers."""

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2edge.config.architecture import Architecture
from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import UsageError
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.training.config import TrainingSettings
from seq2edge_export.training.data import Batch, Encoded, make_batch
from seq2edge_export.training.loss import summed_loss
from seq2edge_export.training.replicas import Replica, Replicas


class Loss(NamedTuple):
    total: float  # nats, summed over the target tokens
    tokens: int


class Learner:
    """A model with its optimizer, and a second model for the average of its weights, which is evaluated."""

    def __init__(self, architecture: Architecture, settings: TrainingSettings, tokens: SpecialTokens) -> None:
        self.settings, self.tokens = settings, tokens
        self.device = torch.device(settings.device)
        self.replicas = Replicas(architecture, settings)
        self.model = self.replicas.model
        self.averaged = Transformer(architecture).to(self.device).eval()
        self.optimizers = make_optimizers(self.replicas, settings)

    def update(self, batches: list[list[Encoded]], *, step: int) -> Loss:
        """Make one optimizer step; raise ``UsageError`` if loss or gradient are not finite."""
        loss = self.backward([self._batch(rows) for rows in batches], step=step)
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm))
        if not (math.isfinite(loss.total) and math.isfinite(norm)):
            raise UsageError(_diverged(step, loss, norm))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, self.settings)
            optimizer.step()
            optimizer.zero_grad()
        return loss

    def backward(self, batches: list[Batch], *, step: int) -> Loss:
        """Compute the gradient of the mean loss over all target tokens of these batches."""
        tokens = sum(int((batch.target_output != self.tokens.pad).sum()) for batch in batches)

        def loss_of(replica: Replica, batch: Batch) -> Tensor:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
                batch = self._with_own_tokens(replica, batch)
                smoothing = self.settings.label_smoothing
                return summed_loss(replica.model, batch, pad=self.tokens.pad, label_smoothing=smoothing) / tokens

        return Loss(self.replicas.backward(batches, loss_of, step=step) * tokens, tokens)

    @torch.no_grad()
    def _with_own_tokens(self, replica: Replica, batch: Batch) -> Batch:
        """Replace a share of the decoder's input by the likeliest tokens of the model (scheduled sampling)."""
        share, target = self.settings.scheduled_sampling, batch.target_input
        if not share:
            return batch
        predicted = replica.model(batch.source, batch.source_mask, target).argmax(dim=-1)  # (B, T), of the next token
        replaced = torch.rand(target.shape, generator=replica.random, device=self.device) < share
        own = torch.where(replaced, predicted.roll(1, dims=1), target)
        own[:, 0] = target[:, 0]  # the start token
        return replace(batch, target_input=own)

    def _batch(self, rows: list[Encoded]) -> Batch:
        return make_batch(rows, pad=self.tokens.pad, start=self.tokens.bos).to(self.device)


class Muon(torch.optim.Optimizer):
    """Momentum whose update of a matrix is made orthogonal, so that all its directions are learned equally fast.

    ``torch.optim.Muon`` computes in bfloat16, which most CPUs do slowly; here the precision of the training decides.
    The length of an update is that of AdamW's, so that both can have the same learning rate (Liu et al. 2025, "Muon is
    Scalable for LLM Training").
    """

    MOMENTUM = 0.95
    ADAMW_LENGTH = 0.2  # root mean square of an update of AdamW, in learning rates

    def __init__(self, matrices: list[nn.Parameter], replicas: Replicas, settings: TrainingSettings) -> None:
        super().__init__(matrices, {"lr": settings.learning_rate, "weight_decay": settings.weight_decay})
        self.replicas = replicas
        self.dtype = torch.bfloat16 if settings.precision == "bf16" else torch.float32

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            self.replicas.map(partial(self._update, lr=group["lr"], decay=group["weight_decay"]), group["params"])

    @torch.no_grad()
    def _update(self, matrix: nn.Parameter, *, lr: float, decay: float) -> None:
        gradient = matrix.grad
        assert gradient is not None
        momentum = self.state[matrix].setdefault("momentum", torch.zeros_like(matrix))
        momentum.lerp_(gradient, 1 - self.MOMENTUM)
        update = orthogonal(gradient.lerp(momentum, self.MOMENTUM).to(self.dtype))  # Nesterov's momentum
        matrix.mul_(1 - lr * decay)
        matrix.add_(update, alpha=-lr * self.ADAMW_LENGTH * math.sqrt(max(matrix.shape)))


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """Return about the nearest (semi-)orthogonal matrix: five steps of Newton-Schulz move singular values near to 1.

    The coefficients are those of Jordan et al. 2024, "Muon": they rise fast from 0 and end between 0.7 and 1.2.
    """
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonal(matrix.T).T
    result = matrix / (matrix.norm() + 1e-7)
    for _ in range(5):
        gram = result @ result.T
        result = torch.addmm(result, torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), result, beta=3.4445)
    return result


def make_optimizers(replicas: Replicas, settings: TrainingSettings) -> list[torch.optim.Optimizer]:
    """Return the optimizers of all parameters; matrices decay, but not biases and norms."""
    model = replicas.model
    rate, decay = settings.learning_rate, settings.weight_decay
    linear = {module.weight for module in model.modules() if isinstance(module, nn.Linear)} - {model.output.weight}
    matrices = [p for p in model.parameters() if p in linear and settings.optimizer == "muon"]
    others = [p for p in model.parameters() if p not in {*matrices}]
    groups = [
        {"params": [p for p in others if p.dim() >= 2], "weight_decay": decay},
        {"params": [p for p in others if p.dim() < 2], "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), eps=1e-9, fused=True)
    return [adamw, Muon(matrices, replicas, settings)] if matrices else [adamw]


def learning_rate(step: int, settings: TrainingSettings) -> float:
    """Warm up linearly, decay with the inverse square root, and cool down to zero; steps count from 1."""
    warmup = max(settings.warmup_steps, 1)
    rate = settings.learning_rate * min(step / warmup, math.sqrt(warmup / step))
    left = settings.max_steps + 1 - step
    return rate * min(1.0, left / (settings.cooldown_steps + 1)) if settings.cooldown_steps else rate


def _diverged(step: int, loss: Loss, norm: float) -> str:
    return (
        f"the training diverged: update {step:,} has a loss of {loss.total / loss.tokens:g} and a gradient norm of "
        f"{norm:g}; the last saved state is intact, but start again with a lower --learning-rate or more --warmup-steps"
    )
