"""Translate with the original model in PyTorch, to compare with; needs torch."""

from collections.abc import Sequence
from dataclasses import replace

from seq2edge.decoding import decode
from seq2edge_export.original import Original
from seq2edge_export.torch_engine import TorchEngine


def translate_with_torch(original: Original, texts: Sequence[str], *, num_beams: int) -> list[str]:
    """The best translation of each text."""
    tokenizer = original.tokenizer()
    engine = TorchEngine(original.graphs, pad=original.tokens.pad)
    options = replace(original.generation, num_beams=num_beams)
    found = decode(engine, tokenizer.encode(texts), options)
    return tokenizer.decode([hypotheses[0].tokens for hypotheses in found])
