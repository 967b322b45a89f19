"""Update a model with AdamW."""

import math
from typing import NamedTuple

import torch

from seq2edge.config.architecture import Architecture
from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import UsageError
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.training.config import TrainingSettings
from seq2edge_export.training.data import Batch, Encoded, make_batch
from seq2edge_export.training.evaluate import summed_loss


class Loss(NamedTuple):
    total: float  # nats, summed over the target tokens
    tokens: int


class Learner:
    """A model with its optimizer, and a second model for the average of its weights, which is evaluated."""

    def __init__(self, architecture: Architecture, settings: TrainingSettings, tokens: SpecialTokens) -> None:
        self.settings, self.tokens = settings, tokens
        self.device = torch.device(settings.device)
        torch.manual_seed(settings.seed)
        self.model = Transformer(architecture, dropout=settings.dropout, seed=settings.seed).to(self.device).train()
        self.averaged = Transformer(architecture).to(self.device).eval()
        self.optimizer = make_optimizer(self.model, settings)

    def update(self, batches: list[list[Encoded]], *, step: int) -> Loss:
        """Make one optimizer step; raise ``UsageError`` if loss or gradient are not finite."""
        loss = self.backward([self._batch(rows) for rows in batches])
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm))
        if not (math.isfinite(loss.total) and math.isfinite(norm)):
            raise UsageError(_diverged(step, loss, norm))
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, self.settings)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def backward(self, batches: list[Batch]) -> Loss:
        """Compute the gradient of the mean loss over all target tokens of these batches."""
        pad, smoothing = self.tokens.pad, self.settings.label_smoothing
        tokens = sum(int((batch.target_output != pad).sum()) for batch in batches)
        total = 0.0
        for batch in batches:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
                loss = summed_loss(self.model, batch, pad=pad, label_smoothing=smoothing)
            torch.autograd.backward(loss / tokens)
            total += loss.item()
        return Loss(total, tokens)

    def _batch(self, rows: list[Encoded]) -> Batch:
        return make_batch(rows, pad=self.tokens.pad, start=self.tokens.bos).to(self.device)


def make_optimizer(model: Transformer, settings: TrainingSettings) -> torch.optim.AdamW:
    """Return AdamW with weight decay for matrices, but not for biases and norms."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=True)


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
