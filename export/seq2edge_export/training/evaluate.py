"""Compute loss and BLEU on the dev set."""

import math
from dataclasses import dataclass

import torch

from seq2edge.config.generation import GenerationOptions
from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.search.batch_decode import decode
from seq2edge.text.tokenizer import Tokenizer
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.source_model import TorchEngine
from seq2edge_export.tracing.graph_modules import transformer_graphs
from seq2edge_export.training.data import Encoded, lengths_of, make_batch, plan_in_order
from seq2edge_export.training.loss import summed_loss

BATCH_TOKENS = 4096
MIN_MATCHES = 25  # matching 4-grams: their number varies by 5, a fifth, and BLEU by a quarter of that


@dataclass(frozen=True)
class DevSet:
    """Sentences to evaluate on."""

    encoded: list[Encoded]
    references: list[str]
    tokenizer: Tokenizer
    tokens: SpecialTokens
    bleu_tokenizer: str = "13a"


@torch.inference_mode()
def dev_loss(model: Transformer, dev: DevSet) -> float:
    """Return the mean cross-entropy of a target token in nats, without label smoothing."""
    device = next(model.parameters()).device
    total, count = 0.0, 0
    for rows in plan_in_order(lengths_of(dev.encoded), batch_tokens=BATCH_TOKENS):
        batch = make_batch([dev.encoded[row] for row in rows], pad=dev.tokens.pad, start=dev.tokens.bos)
        total += float(summed_loss(model, batch.to(device), pad=dev.tokens.pad, label_smoothing=0.0))
        count += int((batch.target_output != dev.tokens.pad).sum())
    return total / count


def dev_bleu(model: Transformer, dev: DevSet) -> float:
    """Return the cased sacreBLEU score of greedy search."""
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(tokenize=dev.bleu_tokenizer, force=True)  # force: no warning about tokenized text
    return float(bleu.corpus_score(translate(model, dev), [dev.references]).score)


def bleu_noise(dev: DevSet) -> float:
    """Return the BLEU below which the dev set is too small to tell models apart.

    BLEU is the geometric mean of the precisions of 1- to 4-grams, which fall about geometrically: p4 = BLEU² / p1, so
    at least BLEU² of the 4-grams match. They are the rarest matches and vary most; there must be ``MIN_MATCHES``.
    """
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(tokenize=dev.bleu_tokenizer, force=True)
    fourgrams = bleu.corpus_score(dev.references, [dev.references]).totals[3]
    return 100 * min(1.0, math.sqrt(MIN_MATCHES / max(fourgrams, 1)))


def translate(model: Transformer, dev: DevSet) -> list[str]:
    """Translate the dev set with greedy search."""
    sources = [source for source, _ in dev.encoded]
    max_tokens = 2 * max(map(len, sources)) + 10  # the output of an untrained model may not end
    options = _greedy_options(dev.tokens, min(max_tokens, model.architecture.max_positions))
    engine = TorchEngine(transformer_graphs(model), pad=dev.tokens.pad)
    outputs = decode(engine, sources, options, batch_tokens=BATCH_TOKENS)
    return dev.tokenizer.decode([hypothesis.tokens for (hypothesis,) in outputs])


def _greedy_options(tokens: SpecialTokens, max_new_tokens: int) -> GenerationOptions:
    return GenerationOptions(
        decoder_start_token_id=tokens.bos,
        eos_token_id=tokens.eos,
        pad_token_id=tokens.pad,
        max_new_tokens=max_new_tokens,
    )
