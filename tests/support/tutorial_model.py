"""Define the model of PyTorch's translation tutorial with the same tensors, and a recipe for it."""

import json
import math
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from seq2edge_export.loaders.recipe.draft import draft_recipe

UNK, PAD, BOS, EOS = 0, 1, 2, 3  # the tutorial's ids
SOURCE_WORDS = ["<unk>", "<pad>", "<bos>", "<eos>", "ein", "Hund", "läuft", ".", ",", "schnell", "Eine", "Katze", "im"]
TARGET_WORDS = [
    "<unk>",
    "<pad>",
    "<bos>",
    "<eos>",
    *["a", "dog", "runs", ".", ",", "fast", "cat", "in", "the", "house", "sleeps", "and", "two", "no", "men"],
]
TEXTS = ["ein Hund läuft schnell.", "Eine Katze, ein Hund.", "im Garten", "ein Hund läuft, läuft, läuft im Haus.", "."]


class PositionalEncoding(nn.Module):
    pos_embedding: Tensor

    def __init__(self, width: int, maxlen: int) -> None:
        super().__init__()
        den = torch.exp(-torch.arange(0, width, 2) * math.log(10000) / width)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        table = torch.zeros((maxlen, width))
        table[:, 0::2] = torch.sin(pos * den)
        table[:, 1::2] = torch.cos(pos * den)
        self.register_buffer("pos_embedding", table.unsqueeze(-2))

    def forward(self, states: Tensor) -> Tensor:
        return states + self.pos_embedding[: states.size(0), :]


class TokenEmbedding(nn.Module):
    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.width = width

    def forward(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens) * math.sqrt(self.width)


class Seq2SeqTransformer(nn.Module):
    """Sequence first, as in the tutorial."""

    def __init__(
        self,
        layers: int = 2,
        width: int = 16,
        nhead: int = 4,
        *,
        sizes: tuple[int, int] = (len(SOURCE_WORDS), len(TARGET_WORDS)),
        norm_first: bool = False,
        bias: bool = True,
        maxlen: int = 60,
    ) -> None:
        super().__init__()
        self.transformer = nn.Transformer(
            d_model=width,
            nhead=nhead,
            num_encoder_layers=layers,
            num_decoder_layers=layers,
            dim_feedforward=24,
            norm_first=norm_first,
            bias=bias,
        )
        self.generator = nn.Linear(width, sizes[1])
        self.src_tok_emb = TokenEmbedding(sizes[0], width)
        self.tgt_tok_emb = TokenEmbedding(sizes[1], width)
        self.positional_encoding = PositionalEncoding(width, maxlen)

    def encode(self, src: Tensor) -> Tensor:
        return self.transformer.encoder(self.positional_encoding(self.src_tok_emb(src)))

    def decode(self, tgt: Tensor, memory: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(0)).isinf()
        return self.transformer.decoder(self.positional_encoding(self.tgt_tok_emb(tgt)), memory, mask)

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the logits (B, T, V) of batch-first ids."""
        return self.generator(self.decode(target.T, self.encode(source.T))).transpose(0, 1)

    def greedy(self, source: list[int], max_len: int) -> list[int]:
        """Run the tutorial's greedy_decode, which computes the whole prefix at every step."""
        memory = self.encode(torch.tensor(source).view(-1, 1))
        tokens = torch.tensor([[BOS]])
        while tokens.size(0) <= max_len and (tokens[-1].item() != EOS):
            logits = self.generator(self.decode(tokens, memory)[-1])  # (1, V)
            tokens = torch.cat([tokens, logits.argmax(dim=1, keepdim=True)])
        return tokens.flatten().tolist()[1:]


def seeded_model(*, norm_first: bool = False, bias: bool = True, seed: int = 1) -> Seq2SeqTransformer:
    """Return a model with random weights whose outputs differ and sometimes end."""
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nn.Transformer warns that batch_first would be faster
        model = Seq2SeqTransformer(norm_first=norm_first, bias=bias).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape) * 0.1)
            elif "tok_emb" not in name:
                parameter.mul_(4)
        model.generator.weight[EOS].mul_(1.5)
    return model


@dataclass(frozen=True)
class Saved:
    """The files of a user of the tutorial."""

    model: Seq2SeqTransformer
    recipe: Path


ANSWERS = {
    'heads = "?"': "heads = 4",
    'pad = "?"': f"pad = {PAD}",
    'bos = "?"': f"bos = {BOS}",
    'eos = "?"': f"eos = {EOS}",
    'unk = "?"': f"unk = {UNK}",
    '[tokenizer]\nkind = "?"': '[tokenizer]\nkind = "words"\nsplit = "punctuation"',
    'source = "?"': 'source = "words.de"',
    'target = "?"': 'target = "words.json"',
}
LENGTH = re.compile("max_new_tokens = .*")


def save_with_recipe(folder: Path, model: Seq2SeqTransformer, changes: dict[str, str] | None = None) -> Saved:
    """Save the state dict, draft its recipe and answer the open questions."""
    torch.save(model.state_dict(), folder / "model.pt")
    (folder / "words.de").write_text("\n".join(SOURCE_WORDS) + "\n", encoding="utf-8")
    (folder / "words.json").write_text(json.dumps({word: i for i, word in enumerate(TARGET_WORDS)}), encoding="utf-8")
    recipe = folder / "recipe.toml"
    text = draft_recipe(folder / "model.pt", recipe)
    for question, answer in {**ANSWERS, **(changes or {})}.items():
        assert question in text, question
        text = text.replace(question, answer)
    recipe.write_text(LENGTH.sub("max_new_tokens = 20", text), encoding="utf-8")
    return Saved(model, recipe)
