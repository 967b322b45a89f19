"""Translate with the original model in PyTorch, to compare with; needs torch."""

from collections.abc import Sequence
from dataclasses import replace

from seq2edge.decoding import decode
from seq2edge_export.checkpoint import Checkpoint
from seq2edge_export.torch_engine import TorchEngine


def translate_with_torch(checkpoint: Checkpoint, texts: Sequence[str], *, num_beams: int) -> list[str]:
    """The best translation of each text."""
    tokenizer = checkpoint.tokenizer()
    engine = TorchEngine(checkpoint.model, pad=checkpoint.config.tokens.pad)
    options = replace(checkpoint.generation, num_beams=num_beams)
    found = decode(engine, tokenizer.encode(texts), options)
    return tokenizer.decode([hypotheses[0].tokens for hypotheses in found])
