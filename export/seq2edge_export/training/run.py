"""One training run in memory: update, measure and save until it is over; needs torch."""

import time
from dataclasses import dataclass
from typing import Any

import torch

from seq2edge.errors import UsageError
from seq2edge_export import checkpoint
from seq2edge_export.checkpoint import CheckpointConfig
from seq2edge_export.training.average import keep_weights, load_average
from seq2edge_export.training.batches import Encoded
from seq2edge_export.training.card import write_card
from seq2edge_export.training.epochs import Epochs
from seq2edge_export.training.evaluate import DevSet, dev_bleu, dev_loss
from seq2edge_export.training.history import Measurement, best_of, draw_curves, since_best, write_table
from seq2edge_export.training.job import Job
from seq2edge_export.training.learner import Learner
from seq2edge_export.training.observer import Observer
from seq2edge_export.training.saving import saving
from seq2edge_export.training.schedule import learning_rate
from seq2edge_export.training.state import restore, save_state

STORED_AS = {"fp32": torch.float32, "fp16": torch.float16}


@dataclass(frozen=True)
class Data:
    """What a run learns from, and what it is measured on."""

    train: list[Encoded]
    dev: DevSet


class Run:
    """Goes on from a saved state, which may be the one before the first update."""

    def __init__(
        self, job: Job, config: CheckpointConfig, data: Data, state: dict[str, Any], observer: Observer
    ) -> None:
        self.job, self.config, self.data, self.observer = job, config, data, observer
        self.settings = job.training
        self.dtype = STORED_AS[self.settings.store]
        self.learner = Learner(config.architecture, self.settings, config.tokens)
        self.progress = restore(state, self.learner.model, self.learner.optimizer)
        self.epochs = Epochs(data.train, self.settings)

    def store_again(self) -> None:
        """Store the best weights as this job wants it, where the one before stored them otherwise."""
        path = self.job.output / checkpoint.WEIGHTS
        if path.exists():
            checkpoint.load_weights(self.learner.averaged, path)
            self._save_checkpoint()
        self._save()

    def to_the_end(self) -> Measurement:
        """Update, measure and save until the steps, or the patience, are used up; give the best measurement."""
        while not self._is_over():
            self._update()
            if self.progress.step % self.settings.evaluate_every == 0:
                self._measure()
            elif self.progress.step % self.settings.save_every == 0:
                self._save()
        if not self._is_measured():
            self._measure()
        self._write_card()
        return best_of(self.progress.history)

    def _is_over(self) -> bool:
        """Whether all updates are made, or BLEU has not grown for too long."""
        out_of_patience = since_best(self.progress.history) >= self.settings.patience
        return self.progress.step >= self.settings.max_steps or out_of_patience

    def _is_measured(self) -> bool:
        """Whether the weights that there are now were measured."""
        history = self.progress.history
        return bool(history) and history[-1].step == self.progress.step

    def _update(self) -> None:
        """One update, added to what has been since the last measurement."""
        progress = self.progress
        batches = self.epochs.advance(progress)
        started = time.perf_counter()
        try:
            loss = self.learner.update(batches, step=progress.step)
        except torch.OutOfMemoryError:
            raise UsageError(
                f"--batch-tokens {self.settings.batch_tokens} is too much for the memory of this device; "
                "start again with fewer, and with --accumulate to make up for it"
            ) from None
        seconds = time.perf_counter() - started
        progress.seconds += seconds
        progress.loss_sum += loss.total
        progress.loss_tokens += loss.tokens
        self.observer.step(progress.step, loss=loss.total / loss.tokens, tokens_per_second=loss.tokens / seconds)

    def _measure(self) -> None:
        """Measure the average of the last weights; the best average so far is the checkpoint."""
        progress, averaged = self.progress, self.learner.averaged
        with saving(self.job.output):
            files = keep_weights(self.job.work, self.learner.model, step=progress.step, most=self.settings.average)
        load_average(files, averaged, dtype=self.dtype)
        row = Measurement(
            step=progress.step,
            epoch=self.epochs.done(progress),
            seconds=progress.seconds,
            learning_rate=learning_rate(progress.step, self.settings),
            train_loss=progress.loss_sum / progress.loss_tokens,
            dev_loss=dev_loss(averaged, self.data.dev),
            dev_bleu=dev_bleu(averaged, self.data.dev),
        )
        progress.history.append(row)
        progress.loss_sum, progress.loss_tokens = 0.0, 0
        self._publish(best=best_of(progress.history) is row)

    def _publish(self, *, best: bool) -> None:
        """Write what a measurement is for; the state comes last, so that a killed run measures again."""
        history = self.progress.history
        if best:
            self._save_checkpoint()
            self._write_card()
        with saving(self.job.output):
            write_table(history, self.job.work / "log.csv")
            draw_curves(history, self.job.work / "curves.png")
        self._save()
        self.observer.measured(history[-1], best=best)

    def _save_checkpoint(self) -> None:
        path, weights = self.job.output / checkpoint.WEIGHTS, checkpoint.weights_of(self.learner.averaged)
        with saving(self.job.output):
            checkpoint.save_weights(path, weights, dtype=self.dtype)

    def _write_card(self) -> None:
        best, pairs = best_of(self.progress.history), {"train": len(self.data.train), "dev": len(self.data.dev.encoded)}
        with saving(self.job.output):
            write_card(self.job, self.config, best, pairs=pairs)

    def _save(self) -> None:
        with saving(self.job.output):
            save_state(self.job.state, self.progress, self.learner.model, self.learner.optimizer, self.job.settings)
