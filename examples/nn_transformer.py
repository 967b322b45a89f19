"""Train an nn.Transformer, export it and run it without PyTorch: python examples/nn_transformer.py numbers ."""

import json
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from seq2edge import GenerationOptions, Translator
from seq2edge.config.tokenizer import SpecialTokens, Tokenization
from seq2edge_export import export_module

PAD, BOS, EOS, UNK = range(4)
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
ENGLISH = [*SPECIAL, "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
PORTUGUESE = [*SPECIAL, "um", "dois", "três", "quatro", "cinco", "seis", "sete", "oito", "nove", "dez"]
LONGEST, WIDTH = 8, 32


class Numbers(nn.Module):
    """An encoder-decoder with the three methods that an export needs."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(len(ENGLISH), WIDTH), nn.Embedding(LONGEST + 2, WIDTH)
        self.transformer = nn.Transformer(WIDTH, 4, 1, 1, 64, dropout=0.0, batch_first=True)
        self.transformer.encoder.use_nested_tensor = False  # a prototype of PyTorch that warns
        self.output = nn.Linear(WIDTH, len(PORTUGUESE))

    def embed(self, ids: Tensor) -> Tensor:
        return self.words(ids) + self.positions(torch.arange(ids.shape[1]))

    def encode(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:
        return [self.transformer.encoder(self.embed(source), src_key_padding_mask=~source_mask)]

    def empty_past(self, rows: int) -> list[Tensor]:
        return [torch.zeros(rows, 0, dtype=torch.int64)]  # the simplest cache: the tokens so far

    def decode(
        self, target: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        tokens = torch.cat([past[0], target], dim=1)
        later = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        states = self.transformer.decoder(
            self.embed(tokens), cross[0], later, tgt_is_causal=True, memory_key_padding_mask=~source_mask
        )
        return self.output(states), [tokens]


def batch(size: int) -> tuple[Tensor, Tensor]:
    """Draw sequences of numbers of one length; source and target have the same ids."""
    length = random.randint(1, LONGEST - 1)
    ids = torch.randint(len(SPECIAL), len(ENGLISH), (size, length))
    ends = torch.full((size, 1), EOS)
    return torch.cat([ids, ends], dim=1), torch.cat([torch.full((size, 1), BOS), ids, ends], dim=1)


def train(steps: int) -> Numbers:
    torch.manual_seed(0)
    random.seed(0)
    model, loss = Numbers(), torch.tensor(0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        source, target = batch(64)
        mask = torch.ones_like(source, dtype=torch.bool)
        logits, _ = model.decode(target[:, :-1], mask, model.encode(source, mask), model.empty_past(len(source)))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())  # teacher forcing
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")
    return model.eval()


def export(model: Numbers, bundle: Path) -> None:
    with TemporaryDirectory() as folder:
        for name, words in {"english.json": ENGLISH, "portuguese.json": PORTUGUESE}.items():
            (Path(folder) / name).write_text(json.dumps(words), encoding="utf-8")
        export_module(
            model,
            bundle,
            tokens=SpecialTokens(pad=PAD, bos=BOS, eos=EOS, unk=UNK),
            tokenization=Tokenization(kind="words", source="english.json", target="portuguese.json"),
            tokenizer_folder=folder,
            generation=GenerationOptions(
                decoder_start_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD, max_new_tokens=LONGEST
            ),
            max_positions=LONGEST,
            languages=("en", "pt"),
        )


def main(bundle: Path, steps: int = 400) -> None:
    export(train(steps), bundle)
    print(Translator(bundle)("three one four one five"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
