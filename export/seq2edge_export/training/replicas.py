"""Compute the gradients of several batches at once, each in a thread of its own.

The products of a small model are too short to be shared by threads: two threads train 1.15 times as fast as one if they
share each product, and 1.7 times if each has its own batch (width 256, 1,024 tokens per batch).
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from seq2edge.config.architecture import Architecture
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.training.config import TrainingSettings
from seq2edge_export.training.data import Batch
from seq2edge_export.training.hardware import threads_of

Item = TypeVar("Item")
Result = TypeVar("Result")


class Dropout(nn.Dropout):
    """Dropout with its own random numbers, as threads would take those of a common generator in any order."""

    def __init__(self, share: float, random: torch.Generator) -> None:
        super().__init__(share)
        self.random = random

    def forward(self, states: Tensor) -> Tensor:
        if not self.training or not self.p:
            return states
        kept = torch.empty_like(states).bernoulli_(1 - self.p, generator=self.random)
        return states * kept.div_(1 - self.p)


@dataclass(frozen=True)
class Replica:
    """A model that shares the weights of the others, but has its own gradients and random numbers."""

    model: Transformer
    random: torch.Generator


class Replicas:
    """One replica for each thread, if there are several batches per update, and else a single one."""

    def __init__(self, architecture: Architecture, settings: TrainingSettings) -> None:
        device, self.seed = torch.device(settings.device), settings.seed
        threads = threads_of(settings)
        count = min(threads, settings.accumulate) if device.type == "cpu" else 1
        torch.set_num_threads(max(threads // count, 1))
        self.all = [_make(architecture, settings, device) for _ in range(count)]
        self.model = self.all[0].model
        for replica in self.all[1:]:
            for own, shared in zip(replica.model.parameters(), self.model.parameters(), strict=True):
                own.data = shared.data
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def backward(self, batches: list[Batch], loss_of: Callable[[Replica, Batch], Tensor], *, step: int) -> float:
        """Add the gradients of all losses to those of the model, and return the sum of the losses.

        Random numbers depend on the seed, the step and the position of the batch alone, gradients on the number of
        replicas as well, as it determines the order of additions.
        """

        def work(index: int) -> float:
            replica, total = self.all[index], 0.0
            for number in range(index, len(batches), len(self.all)):
                [seed] = np.random.SeedSequence([self.seed, step, number]).generate_state(1)
                replica.random.manual_seed(int(seed))
                loss = loss_of(replica, batches[number])
                torch.autograd.backward(loss)
                total += loss.item()
            return total

        total = sum(self.map(work, range(len(self.all))))
        for replica in self.all[1:]:
            _move_gradients(replica.model, self.model)
        return total

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Call a function for each item, in as many threads as there are replicas."""
        return list(self._pool.map(function, items) if self._pool else map(function, items))


def _make(architecture: Architecture, settings: TrainingSettings, device: torch.device) -> Replica:
    random = torch.Generator(device)
    model = Transformer(architecture, dropout=settings.dropout, seed=settings.seed).to(device).train()
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout):
                setattr(module, name, Dropout(child.p, random))
    return Replica(model, random)


def _move_gradients(source: nn.Module, target: nn.Module) -> None:
    for given, taken in zip(source.parameters(), target.parameters(), strict=True):
        if given.grad is not None:
            taken.grad = given.grad if taken.grad is None else taken.grad.add_(given.grad)
            given.grad = None
