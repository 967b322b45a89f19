"""Train small models of transformers for some seconds, so that their outputs end."""

import random
from pathlib import Path
from typing import Any

import torch
from hugging_face_models import write_marian, write_nllb
from scripts_text import sentences
from t5_folder import KINDS, WORDS, write_t5
from transformers import MarianTokenizer, NllbTokenizer, T5Tokenizer

SIZES = {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}
T5_SIZES = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_heads": 4, "num_layers": 1, "num_decoder_layers": 1}
PAIRS, STEPS, BATCH = 48, 140, 24
Pairs = list[tuple[str, str]]


def train_marian(folder: Path) -> tuple[Any, Any, Pairs]:
    model = write_marian(folder, dropout=0.0, **SIZES)
    tokenizer = MarianTokenizer.from_pretrained(folder)
    return train(type(model)(model.config), folder, tokenizer, reversed_pairs(sentences(PAIRS, seed=21)))


def train_nllb(folder: Path) -> tuple[Any, Any, Pairs]:
    model = write_nllb(folder, dropout=0.0, **SIZES)
    tokenizer = NllbTokenizer.from_pretrained(folder, src_lang="eng_Latn", tgt_lang="deu_Latn")
    return train(type(model)(model.config), folder, tokenizer, reversed_pairs(sentences(PAIRS, seed=22)))


def train_t5(folder: Path) -> tuple[Any, Any, Pairs]:
    write_t5(folder, dropout_rate=0.0, **T5_SIZES)
    tokenizer = T5Tokenizer.from_pretrained(folder)
    chance = random.Random(23)
    texts = [" ".join(chance.choices(WORDS["English"].split(), k=chance.randint(1, 5))) for _ in range(PAIRS)]
    model = KINDS["t5"][1].from_pretrained(folder)
    model.init_weights()
    return train(model, folder, tokenizer, reversed_pairs(texts), rate=3e-3, steps=300)


def reversed_pairs(texts: list[str]) -> Pairs:
    """Return texts with their words in reverse order."""
    return [(text, " ".join(reversed(text.split()))) for text in texts]


def train(
    model: Any, folder: Path, tokenizer: Any, pairs: Pairs, *, rate: float = 4e-3, steps: int = STEPS
) -> tuple[Any, Any, Pairs]:
    """Overfit on some pairs and write the model into its folder."""
    torch.manual_seed(5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    model.train()
    for step in range(steps):
        chosen = pairs[step % 2 :: 2][:BATCH]
        batch = tokenizer(
            [pair[0] for pair in chosen], text_target=[pair[1] for pair in chosen], padding=True, return_tensors="pt"
        )
        labels = batch.labels.masked_fill(batch.labels == tokenizer.pad_token_id, -100)
        loss = model(batch.input_ids, batch.attention_mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    model.generation_config = type(model.generation_config).from_pretrained(folder)
    model.generation_config.max_length = 60
    model.save_pretrained(folder)
    return model, tokenizer, pairs
