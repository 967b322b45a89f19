"""Write a tiny seeded checkpoint for tests of export and runtime."""

from pathlib import Path

import torch

from seq2edge.config.architecture import Architecture
from seq2edge.config.generation import GenerationOptions
from seq2edge_export.checkpoint import WEIGHTS, CheckpointConfig, save_config, save_weights, weights_of
from seq2edge_export.model.transformer import Transformer
from seq2edge_export.training.config import TokenizerSettings
from seq2edge_export.training.data import Pairs
from seq2edge_export.training.tokenizer import TOKENS, train_tokenizer

SUBJECTS = ("the old man", "a small dog", "our teacher", "the girl next door", "nobody", "every bird", "my friend")
VERBS = ("sees", "finds", "paints", "forgets", "carries", "wants", "remembers", "sells")
OBJECTS = ("a red house", "the long letter", "two green apples", "his bicycle", "the winter sea", "some bread")
SENTENCES = [f"{subject} {verb} {thing}." for subject in SUBJECTS for verb in VERBS for thing in OBJECTS]

TINY = Architecture(
    source_vocabulary=320,
    target_vocabulary=320,
    width=32,
    heads=4,
    encoder_layers=2,
    decoder_layers=2,
    feed_forward=48,
    max_positions=64,
)


def write_checkpoint(folder: Path, architecture: Architecture = TINY, *, seed: int = 5, scaled: bool = True) -> Path:
    """Write a checkpoint with random weights, large enough for different outputs."""
    folder.mkdir(parents=True)
    pairs = Pairs(Path("none"), SENTENCES, [text[::-1] for text in SENTENCES])
    pieces = min(architecture.target_vocabulary, TINY.target_vocabulary)  # more than the sentences have
    settings = TokenizerSettings(vocabulary=pieces, joint_vocabulary=architecture.joint_vocabulary)
    vocabularies = train_tokenizer([pairs], settings, seed=1)
    for name, content in vocabularies.items():
        (folder / name).write_bytes(content)
    config = CheckpointConfig(
        format_version=1,
        architecture=architecture,
        tokens=TOKENS,
        source_tokenizer=next(iter(vocabularies)),
        target_tokenizer=list(vocabularies)[-1],
        source_language="en",
        target_language="ne",
        license="CC0-1.0",
        attribution="nobody",
    )
    generation = GenerationOptions(
        decoder_start_token_id=TOKENS.bos,
        eos_token_id=TOKENS.eos,
        pad_token_id=TOKENS.pad,
        num_beams=4,
        max_new_tokens=24,
    )
    save_config(folder, config, generation)
    model = random_model(architecture, seed) if scaled else Transformer(architecture, seed=seed)
    save_weights(folder / WEIGHTS, weights_of(model))
    return folder


def random_model(architecture: Architecture, seed: int) -> Transformer:
    """Return a model with random weights, scaled so that outputs differ and some of them end."""
    model = Transformer(architecture, seed=seed).eval()
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape, generator=random) * 0.3)
            elif "tokens" not in name:
                parameter.mul_(3)
        model.output.weight[TOKENS.eos].mul_(3)
    return model
