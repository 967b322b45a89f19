"""Train a translation model, resumable after any interruption; needs torch."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from seq2edge.architecture import Architecture
from seq2edge.errors import CheckpointError, DataError, UsageError
from seq2edge.generation import GenerationOptions
from seq2edge.tokenizer import Tokenizer

from seq2edge_export import checkpoint
from seq2edge_export.checkpoint import CheckpointConfig
from seq2edge_export.model import Transformer
from seq2edge_export.training import hardware
from seq2edge_export.training.average import keep_weights, load_average
from seq2edge_export.training.batches import Batch, Encoded, lengths_of, make_batch, plan_epoch
from seq2edge_export.training.evaluate import DevSet, dev_bleu, dev_loss, summed_loss
from seq2edge_export.training.history import Measurement, draw_curves, write_table
from seq2edge_export.training.pairs import Pairs, read_pairs
from seq2edge_export.training.schedule import learning_rate
from seq2edge_export.training.settings import ModelSettings, TokenizerSettings, TrainingSettings
from seq2edge_export.training.state import Progress, read_state, restore, save_state
from seq2edge_export.training.tokenizer import TOKENS, train_tokenizer

# What a resumed run may change: none of it touches the updates already made.
FREE_TO_CHANGE = {"max_steps", "cooldown_steps", "evaluate_every", "save_every", "patience", "threads"}


class Observer(Protocol):
    """Who is told how the training goes."""

    def say(self, text: str) -> None: ...
    def step(self, step: int, *, loss: float, tokens_per_second: float) -> None: ...
    def measured(self, row: Measurement, *, best: bool) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to train on, how, and where to put it."""

    train: Path
    dev: Path
    output: Path
    source_language: str
    target_language: str
    tokenizer: TokenizerSettings
    model: ModelSettings
    training: TrainingSettings

    @property
    def work(self) -> Path:
        """State and curves live beside the checkpoint's own files."""
        return self.output / "training"


def train(job: Job, *, resume: bool, observer: Observer) -> Measurement:
    """Train from the beginning or from where a run was interrupted; give the best measurement."""
    hardware.set_threads(job.training.threads)
    state = _state_to_resume(job) if resume else None
    train_pairs, dev_pairs = read_pairs(job.train), read_pairs(job.dev)
    for pairs in (train_pairs, dev_pairs):
        observer.say(pairs.report())
    if state is None:
        _start_folder(job, train_pairs, observer)
    config = checkpoint.read_config(job.output)
    run = Run(job, config, train_pairs, dev_pairs, observer)
    if state is not None:
        run.progress = restore(state, run.model, run.optimizer)
        observer.say(f"resuming after {run.progress.step:,} updates")
    return run.to_the_end()


class Run:
    """One training run in memory."""

    def __init__(
        self, job: Job, config: CheckpointConfig, train_pairs: Pairs, dev_pairs: Pairs, observer: Observer
    ) -> None:
        self.job, self.settings, self.observer = job, job.training, observer
        self.device = hardware.choose_device(self.settings)
        self.bf16 = hardware.choose_bf16(self.settings, self.device)
        names = config.source_tokenizer, config.target_tokenizer
        tokenizer = Tokenizer.load(*(job.output / name for name in names), eos=config.tokens.eos)
        self.encoded = _encode(train_pairs, tokenizer, job.model.max_positions, observer)
        dev = _encode(dev_pairs, tokenizer, job.model.max_positions, observer)
        self.dev = DevSet(dev, dev_pairs.targets, tokenizer, config.tokens)
        torch.manual_seed(self.settings.seed)
        self.model = Transformer(config.architecture, dropout=self.settings.dropout, seed=self.settings.seed)
        self.model.to(self.device)
        self.averaged = Transformer(config.architecture).to(self.device).eval()
        self.optimizer = make_optimizer(self.model, self.settings)
        self.progress = Progress()

    def to_the_end(self) -> Measurement:
        """Update, measure and save until the steps, or the patience, are used up."""
        settings, progress = self.settings, self.progress
        self.model.train()
        for batches in self._updates():
            started = time.perf_counter()
            loss, tokens = self._update(batches)
            seconds = time.perf_counter() - started
            progress.seconds += seconds
            progress.loss_sum += loss
            progress.loss_tokens += tokens
            self.observer.step(progress.step, loss=loss / tokens, tokens_per_second=tokens / seconds)
            if progress.step % settings.evaluate_every == 0 or progress.step == settings.max_steps:
                self._measure()
            elif progress.step % settings.save_every == 0:
                self._save()
            if self._is_over():
                break
        return best_of(progress.history)

    def _is_over(self) -> bool:
        """Whether all updates are made, or BLEU has not grown for too long."""
        history = self.progress.history
        if self.progress.step >= self.settings.max_steps:
            return True
        return bool(history) and len(history) - 1 - history.index(best_of(history)) >= self.settings.patience

    def _updates(self) -> Iterator[list[Batch]]:
        """The batches of each update, epoch after epoch, from where the run is."""
        progress, settings = self.progress, self.settings
        lengths = lengths_of(self.encoded)
        while not self._is_over():
            plan = plan_epoch(lengths, batch_tokens=settings.batch_tokens, seed=settings.seed, epoch=progress.epoch)
            self.batches_per_epoch = len(plan)
            while progress.position < len(plan):
                rows = plan[progress.position : progress.position + settings.accumulate]
                progress.position += len(rows)
                progress.step += 1
                yield [self._batch([self.encoded[row] for row in batch_rows]) for batch_rows in rows]
            progress.epoch, progress.position = progress.epoch + 1, 0

    def _batch(self, rows: list[Encoded]) -> Batch:
        tokens = self.dev.tokens
        return make_batch(rows, pad=tokens.pad, start=tokens.bos).to(self.device)

    def _update(self, batches: list[Batch]) -> tuple[float, int]:
        """One step of the optimizer; give the summed loss and the number of target tokens."""
        settings, pad = self.settings, self.dev.tokens.pad
        tokens = sum(int((batch.target_output != pad).sum()) for batch in batches)
        total = 0.0
        for batch in batches:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
                loss = summed_loss(self.model, batch, pad=pad, label_smoothing=settings.label_smoothing)
            (loss / tokens).backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.progress.step, settings)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total, tokens

    def _measure(self) -> None:
        """Measure the average of the last weights; the best average so far is the checkpoint."""
        progress = self.progress
        files = keep_weights(self.job.work, self.model, step=progress.step, most=self.settings.average)
        load_average(files, self.averaged)
        row = Measurement(
            step=progress.step,
            epoch=progress.epoch + progress.position / self.batches_per_epoch,
            seconds=progress.seconds,
            learning_rate=learning_rate(progress.step, self.settings),
            train_loss=progress.loss_sum / progress.loss_tokens,
            dev_loss=dev_loss(self.averaged, self.dev),
            dev_bleu=dev_bleu(self.averaged, self.dev),
        )
        progress.history.append(row)
        progress.loss_sum, progress.loss_tokens = 0.0, 0
        is_best = best_of(progress.history) is row
        if is_best:
            checkpoint.save_weights(self.job.output / checkpoint.WEIGHTS, checkpoint.weights_of(self.averaged))
        write_table(progress.history, self.job.work / "log.csv")
        draw_curves(progress.history, self.job.work / "curves.png")
        self._save()
        self.observer.measured(row, best=is_best)

    def _save(self) -> None:
        save_state(
            self.job.work / "state.pt", self.progress, self.model, self.optimizer, _settings_of(self.job)
        )


def best_of(history: list[Measurement]) -> Measurement:
    """The highest BLEU; the lower loss among equals, as when a tiny model has no BLEU yet."""
    return max(history, key=lambda row: (row.dev_bleu, -row.dev_loss))


def make_optimizer(model: Transformer, settings: TrainingSettings) -> torch.optim.AdamW:
    """AdamW that lets matrices decay, but neither biases nor norms."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=True)


def _encode(pairs: Pairs, tokenizer: Tokenizer, longest: int, observer: Observer) -> list[Encoded]:
    """Ids of both sides; pairs longer than the model's positions are left out, and said so."""
    both = zip(tokenizer.encode(pairs.sources), tokenizer.encode_target(pairs.targets), strict=True)
    encoded = [(source[:longest], target[:longest]) for source, target in both]
    return encoded


def _start_folder(job: Job, pairs: Pairs, observer: Observer) -> None:
    if job.output.exists() and any(job.output.iterdir()):
        raise UsageError(f"{job.output} is not empty; give --resume to go on with it, or another --output")
    job.work.mkdir(parents=True, exist_ok=True)
    observer.say(f"training a vocabulary of {job.tokenizer.vocabulary:,} pieces")
    files = train_tokenizer(pairs, job.output, job.tokenizer, seed=job.training.seed)
    shape = Architecture(
        source_vocabulary=job.tokenizer.vocabulary,
        target_vocabulary=job.tokenizer.vocabulary,
        joint_vocabulary=job.tokenizer.joint_vocabulary,
        **asdict(job.model),
    )
    config = CheckpointConfig(
        format_version=checkpoint.FORMAT_VERSION,
        architecture=shape,
        tokens=TOKENS,
        source_tokenizer=files[0],
        target_tokenizer=files[1],
        source_language=job.source_language,
        target_language=job.target_language,
    )
    generation = GenerationOptions(
        decoder_start_token_id=TOKENS.bos, eos_token_id=TOKENS.eos, pad_token_id=TOKENS.pad, num_beams=4,
        max_new_tokens=min(256, job.model.max_positions),
    )
    checkpoint.save_config(job.output, config, generation)


def _settings_of(job: Job) -> dict[str, Any]:
    return {**asdict(job.tokenizer), **asdict(job.model), **asdict(job.training)}


def _state_to_resume(job: Job) -> dict[str, Any]:
    state = read_state(job.work / "state.pt")
    was, now = state["settings"], _settings_of(job)
    changed = [f"{name} was {was.get(name)!r} and is {now[name]!r}" for name in now
               if was.get(name) != now[name] and name not in FREE_TO_CHANGE]
    if changed:
        raise UsageError(f"a resumed run must keep its settings, but {'; '.join(changed)}")
    return state
