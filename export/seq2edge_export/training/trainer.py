"""Train a translation model, resumable after any interruption; needs torch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from seq2edge.tokenizer import Tokenizer
from seq2edge.tokens import SpecialTokens
from seq2edge_export.training import hardware
from seq2edge_export.training.corpus import encode_pairs
from seq2edge_export.training.evaluate import DevSet
from seq2edge_export.training.history import Measurement
from seq2edge_export.training.job import Job
from seq2edge_export.training.observer import Observer
from seq2edge_export.training.pairs import Pairs, read_pairs
from seq2edge_export.training.resume import config_to_resume, has_begun, state_to_resume, tidy
from seq2edge_export.training.run import Data, Run
from seq2edge_export.training.saving import saving
from seq2edge_export.training.start import start
from seq2edge_export.training.state import read_state
from seq2edge_export.training.tokenizer import TOKENS, load_tokenizer, train_tokenizer


def train(job: Job, *, resume: bool, observer: Observer) -> Measurement:
    """Train from the beginning or from where a run was interrupted; give the best measurement."""
    with saving(job.output):
        begun = has_begun(job, resume=resume)
    if resume and not begun:
        observer.say(f"{job.output} holds nothing to resume yet: starting from the beginning")
    run = _resumed(job, observer) if begun else _started(job, observer)
    tidy(job, step=run.progress.step)
    return run.to_the_end()


def _started(job: Job, observer: Observer) -> Run:
    """A run before its first update; nothing is written unless vocabulary and data are good."""
    job = _on_this_hardware(job, {}, observer)
    train_pairs, dev_pairs = _read(job, observer)
    observer.say(f"training a vocabulary of {job.tokenizer.vocabulary:,} pieces")
    models = train_tokenizer(train_pairs, job.tokenizer, seed=job.training.seed)
    data = _encode(train_pairs, dev_pairs, load_tokenizer(models), TOKENS, job, observer)
    config = start(job, models)
    return Run(job, config, data, read_state(job.state), observer)


def _resumed(job: Job, observer: Observer) -> Run:
    """A run as it was when its state was last saved."""
    state, config = state_to_resume(job), config_to_resume(job)
    job = _on_this_hardware(job, state["settings"], observer)
    train_pairs, dev_pairs = _read(job, observer)
    names = config.source_tokenizer, config.target_tokenizer
    tokenizer = Tokenizer.load(*(job.output / name for name in names), eos=config.tokens.eos)
    data = _encode(train_pairs, dev_pairs, tokenizer, config.tokens, job, observer)
    observer.say(f"resuming after {state['progress']['step']:,} updates")
    run = Run(job, config, data, state, observer)
    if state["settings"].get("store", "fp32") != job.training.store:
        run.store_again()
    return run


def _on_this_hardware(job: Job, before: Mapping[str, Any], observer: Observer) -> Job:
    settled = hardware.settle(job.training, before)
    hardware.use_threads(settled.threads)
    observer.say(hardware.describe(settled))
    return replace(job, training=settled)


def _read(job: Job, observer: Observer) -> tuple[Pairs, Pairs]:
    train_pairs, dev_pairs = read_pairs(job.train), read_pairs(job.dev)
    for pairs in (train_pairs, dev_pairs):
        observer.say(pairs.report())
    return train_pairs, dev_pairs


def _encode(
    train_pairs: Pairs, dev_pairs: Pairs, tokenizer: Tokenizer, tokens: SpecialTokens, job: Job, observer: Observer
) -> Data:
    longest = job.model.max_positions
    learned = encode_pairs(train_pairs, tokenizer, longest=longest, say=observer.say)
    measured = encode_pairs(dev_pairs, tokenizer, longest=longest, say=observer.say)
    dev = DevSet(measured.encoded, measured.targets, tokenizer, tokens, job.training.bleu_tokenizer)
    return Data(learned.encoded, dev)
