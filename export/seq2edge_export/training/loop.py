"""Train a translation model; a run can be resumed after any interruption."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch

from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge.errors import UsageError
from seq2edge.text.tokenizer import Tokenizer
from seq2edge_export import checkpoint
from seq2edge_export.checkpoint import CheckpointConfig
from seq2edge_export.training import hardware
from seq2edge_export.training.checkpointing import (
    TrainingProgress,
    adopt_initial,
    can_resume,
    clean_up,
    config_to_resume,
    load_average,
    read_state,
    restore,
    save_recent_weights,
    save_state,
    saving,
    state_to_resume,
)
from seq2edge_export.training.config import Job, TrainingSettings
from seq2edge_export.training.data import Encoded, Pairs, draw_rows, encode_pairs, lengths_of, plan_epoch, read_pairs
from seq2edge_export.training.evaluate import DevSet, bleu_noise, dev_bleu, dev_loss
from seq2edge_export.training.learner import Learner, learning_rate
from seq2edge_export.training.noise import with_noise
from seq2edge_export.training.report import Evaluation, best_of, draw_curves, write_card, write_table
from seq2edge_export.training.tokenizer import TOKENS, load_tokenizer, read_tokenizer, train_tokenizer

STORED_AS = {"fp32": torch.float32, "fp16": torch.float16}


class Observer(Protocol):
    """Receives the progress of a training."""

    def message(self, text: str) -> None: ...
    def step(self, step: int, *, loss: float, tokens_per_second: float) -> None: ...
    def evaluated(self, row: Evaluation, *, best: bool) -> None: ...


@dataclass(frozen=True)
class Data:
    """The training and dev data of a run."""

    train: list[Encoded]
    files: list[tuple[int, float]]  # the number of pairs and the weight of each file, in the order of ``train``
    dev: DevSet


def train(job: Job, *, resume: bool, observer: Observer) -> Evaluation:
    """Start or resume a training; return the best evaluation."""
    job = adopt_initial(job)
    with saving(job.output):
        resumable = can_resume(job, resume=resume)
    if resume and not resumable:
        observer.message(f"{job.output} contains nothing to resume yet: starting from the beginning")
    run = _resume_run(job, observer) if resumable else _start_run(job, observer)
    clean_up(job, step=run.progress.step)
    return run.run()


def _start_run(job: Job, observer: Observer) -> "Run":
    """Return a run before its first update; nothing is written if vocabulary or data are unusable."""
    job = _resolve_hardware(job, {}, observer)
    train_files, dev_pairs = _read(job, observer)
    if job.initial is None:
        observer.message(f"training a vocabulary of {job.tokenizer.vocabulary:,} pieces")
        models = train_tokenizer(train_files, job.tokenizer, seed=job.training.seed)
    else:
        models = read_tokenizer(job.initial)
    data = _encode(train_files, dev_pairs, load_tokenizer(models), TOKENS, job, observer)
    config = create_run(job, models)
    return Run(job, config, data, read_state(job.state), observer)


def _resume_run(job: Job, observer: Observer) -> "Run":
    """Return a run as it was when its state was last saved."""
    state, config = state_to_resume(job), config_to_resume(job)
    job = _resolve_hardware(job, state["settings"], observer)
    train_files, dev_pairs = _read(job, observer)
    names = config.source_tokenizer, config.target_tokenizer
    tokenizer = Tokenizer.load(*(job.output / name for name in names), eos=config.tokens.eos)
    data = _encode(train_files, dev_pairs, tokenizer, config.tokens, job, observer)
    observer.message(f"resuming after {state['progress']['step']:,} updates")
    run = Run(job, config, data, state, observer)
    if state["settings"].get("store", "fp32") != job.training.store:
        run.convert_checkpoint()
    return run


def _resolve_hardware(job: Job, saved: Mapping[str, Any], observer: Observer) -> Job:
    settings = hardware.resolve_hardware(job.training, saved)
    observer.message(hardware.describe(settings))
    return replace(job, training=settings)


def _read(job: Job, observer: Observer) -> tuple[list[Pairs], Pairs]:
    """Read the training files, each followed by its noisy copies if there is noise, and the dev file."""
    train_files, dev_pairs = [read_pairs(file.path) for file in job.train], read_pairs(job.dev)
    for pairs in (*train_files, dev_pairs):
        observer.message(pairs.report())
    if job.training.noise:
        train_files = [with_noise(pairs, share=job.training.noise, seed=job.training.seed) for pairs in train_files]
        observer.message(f"with noisy copies: {sum(map(len, train_files)):,} pairs")
    return train_files, dev_pairs


def _encode(
    train_files: list[Pairs],
    dev_pairs: Pairs,
    tokenizer: Tokenizer,
    tokens: SpecialTokens,
    job: Job,
    observer: Observer,
) -> Data:
    encode = partial(encode_pairs, tokenizer=tokenizer, max_tokens=job.model.max_positions, report=observer.message)
    encoded = [encode(pairs).encoded for pairs in train_files]
    files = [(len(rows), file.weight) for rows, file in zip(encoded, job.train, strict=True)]
    dev_corpus = encode(dev_pairs)
    dev = DevSet(dev_corpus.encoded, dev_corpus.targets, tokenizer, tokens, job.training.bleu_tokenizer)
    return Data([pair for rows in encoded for pair in rows], files, dev)


class Run:
    """A training run, continued from a saved state, which may be the one before the first update."""

    def __init__(
        self, job: Job, config: CheckpointConfig, data: Data, state: dict[str, Any], observer: Observer
    ) -> None:
        self.job, self.config, self.data, self.observer = job, config, data, observer
        self.settings = job.training
        self.dtype = STORED_AS[self.settings.store]
        self.learner = Learner(config.architecture, self.settings, config.tokens)
        self.progress = restore(state, self.learner)
        self.epochs = Epochs(data.train, data.files, self.settings)
        self.noise = bleu_noise(data.dev)

    def convert_checkpoint(self) -> None:
        """Rewrite the best weights after the setting ``store`` has changed."""
        path = self.job.output / checkpoint.WEIGHTS
        if path.exists():
            checkpoint.load_weights(self.learner.averaged, path)
            self._save_checkpoint()
        self._save()

    def run(self) -> Evaluation:
        """Train until the maximum number of updates or the patience is reached; return the best evaluation."""
        while not self._is_over():
            self._update()
            if self.progress.step % self.settings.evaluate_every == 0:
                self._evaluate()
            elif self.progress.step % self.settings.save_every == 0:
                self._save()
        if not self._is_evaluated():
            self._evaluate()
        return self._write_card()

    def _is_over(self) -> bool:
        """Return whether all updates are done, or no evaluation was better for too long."""
        out_of_patience = self.progress.evaluations_since_best >= self.settings.patience
        return self.progress.step >= self.settings.max_steps or out_of_patience

    def _is_evaluated(self) -> bool:
        """Return whether the current weights were evaluated."""
        history = self.progress.history
        return bool(history) and history[-1].step == self.progress.step

    def _update(self) -> None:
        """Make one update and add its loss to the sum since the last evaluation."""
        progress = self.progress
        batches = self.epochs.advance(progress)
        started = time.perf_counter()
        try:
            loss = self.learner.update(batches, step=progress.step)
        except torch.OutOfMemoryError:
            raise UsageError(
                f"--batch-tokens {self.settings.batch_tokens} is too much for the memory of this device; "
                "start again with fewer, and with --accumulate to compensate"
            ) from None
        seconds = time.perf_counter() - started
        progress.seconds += seconds
        progress.loss_sum += loss.total
        progress.loss_tokens += loss.tokens
        self.observer.step(progress.step, loss=loss.total / loss.tokens, tokens_per_second=loss.tokens / seconds)

    def _evaluate(self) -> None:
        """Evaluate the average of the last weights; the best average so far is the checkpoint."""
        progress, averaged = self.progress, self.learner.averaged
        with saving(self.job.output):
            files = save_recent_weights(
                self.job.work, self.learner.model, step=progress.step, limit=self.settings.average
            )
        load_average(files, averaged, dtype=self.dtype)
        row = Evaluation(
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
        candidates = [row] if progress.best is None else [progress.best, row]  # the first wins a tie
        progress.best_step = best_of(candidates, noise=self.noise).step
        self._publish(best=progress.best is row)

    def _publish(self, *, best: bool) -> None:
        """Write the results of an evaluation; the state is last, so that a killed run evaluates again."""
        history = self.progress.history
        if best:
            self._save_checkpoint()
            self._write_card()
        with saving(self.job.output):
            write_table(history, self.job.work / "log.csv")
            draw_curves(history, self.job.work / "curves.png")
        self._save()
        self.observer.evaluated(history[-1], best=best)

    def _save_checkpoint(self) -> None:
        path, weights = self.job.output / checkpoint.WEIGHTS, checkpoint.weights_of(self.learner.averaged)
        with saving(self.job.output):
            checkpoint.save_weights(path, weights, dtype=self.dtype)

    def _write_card(self) -> Evaluation:
        """Write the model card of the checkpoint and return its evaluation."""
        best, pairs = self.progress.best, {"train": len(self.data.train), "dev": len(self.data.dev.encoded)}
        assert best is not None
        with saving(self.job.output):
            write_card(self.job, self.config, best, pairs=pairs)
        return best

    def _save(self) -> None:
        with saving(self.job.output):
            save_state(self.job.state, self.progress, self.learner, self.job.settings)


class Epochs:
    """The batches of each update, planned one epoch at a time; they depend only on ``TrainingProgress``."""

    def __init__(self, encoded: list[Encoded], files: list[tuple[int, float]], settings: TrainingSettings) -> None:
        self.encoded, self.files, self.settings = encoded, files, settings
        self.lengths = lengths_of(encoded)
        self.epoch, self.plan = 0, self._plan(0)

    def advance(self, progress: TrainingProgress) -> list[list[Encoded]]:
        """Advance by one update and return its batches; the last update of an epoch may have fewer."""
        if progress.position >= len(self.plan):
            progress.epoch, progress.position = progress.epoch + 1, 0
        if progress.epoch != self.epoch:
            self.epoch, self.plan = progress.epoch, self._plan(progress.epoch)
        batches = self.plan[progress.position : progress.position + self.settings.accumulate]
        progress.position += len(batches)
        progress.step += 1
        return [[self.encoded[row] for row in rows] for rows in batches]

    def done(self, progress: TrainingProgress) -> float:
        """Return how many epochs are done; each has the same number of batches."""
        return progress.epoch + progress.position / len(self.plan)

    def _plan(self, epoch: int) -> list[np.ndarray]:
        settings = self.settings
        rows = draw_rows(self.files, seed=settings.seed, epoch=epoch)
        plan = plan_epoch(self.lengths[rows], batch_tokens=settings.batch_tokens, seed=settings.seed, epoch=epoch)
        return [rows[batch] for batch in plan]


def create_run(job: Job, models: dict[str, bytes]) -> CheckpointConfig:
    """Create the folder of a run with the vocabulary files ``models``.

    The state is written last: if the run is killed before, the next one can start again.
    """
    config = _config(job, list(models))
    learner = Learner(job.architecture, job.training, TOKENS)
    if job.initial is not None:
        checkpoint.load_weights(learner.model, job.initial / checkpoint.WEIGHTS)
    with saving(job.output):
        job.work.mkdir(parents=True, exist_ok=True)
        for name, content in models.items():
            with replaced_file(job.output / name) as new:
                new.write_bytes(content)
        checkpoint.save_config(job.output, config, _generation(job))
        save_state(job.state, TrainingProgress(), learner, job.settings)
    return config


def _config(job: Job, tokenizers: list[str]) -> CheckpointConfig:
    tokenization = Tokenization(source=tokenizers[0], target=tokenizers[-1])
    languages = (job.source_language, job.target_language)
    return CheckpointConfig.create(job.architecture, TOKENS, tokenization, languages, job.license, job.attribution)


def _generation(job: Job) -> GenerationOptions:
    return GenerationOptions(
        decoder_start_token_id=TOKENS.bos,
        eos_token_id=TOKENS.eos,
        pad_token_id=TOKENS.pad,
        num_beams=4,
        max_new_tokens=min(256, job.model.max_positions),
    )
