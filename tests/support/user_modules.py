"""Modules that are exported without a loader, with two kinds of states."""

import torch
from tiny_checkpoint import TINY
from torch import Tensor, nn

WIDTH, VOCABULARY = 24, TINY.target_vocabulary


class Recurrent(nn.Module):
    """A GRU with attention: one state that keeps its shape, and one that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.reader = nn.Linear(WIDTH, WIDTH)
        self.cell = nn.GRUCell(2 * WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, VOCABULARY)

    def encode(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:
        return [self.reader(self.tokens(source)).tanh()]

    def empty_past(self, rows: int) -> list[Tensor]:
        return [torch.zeros(rows, WIDTH), torch.zeros(rows, 0, WIDTH)]

    def decode(
        self, target: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        state, memory = past
        scores = (cross[0] @ state[:, :, None])[:, :, 0].masked_fill(~source_mask, -1e9)
        seen = (scores.softmax(dim=1)[:, :, None] * cross[0]).sum(dim=1)
        state = self.cell(torch.cat([self.tokens(target[:, -1]), seen], dim=1), state)
        memory = torch.cat([memory, state[:, None]], dim=1)
        return self.output(memory.mean(dim=1)), [state, memory]


class WithoutCache(nn.Module):
    """nn.Transformer as tutorials use it; the past is the tokens so far, and all of them run again."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.transformer = nn.Transformer(WIDTH, 4, 1, 1, 32, dropout=0.0, batch_first=True)
        self.transformer.encoder.use_nested_tensor = False  # a prototype of PyTorch that warns
        self.output = nn.Linear(WIDTH, VOCABULARY)

    def encode(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:
        return [self.transformer.encoder(self.tokens(source), src_key_padding_mask=~source_mask)]

    def empty_past(self, rows: int) -> list[Tensor]:
        return [torch.zeros(rows, 0, dtype=torch.int64)]

    def decode(
        self, target: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        tokens = torch.cat([past[0], target], dim=1)
        later = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        states = self.transformer.decoder(
            self.tokens(tokens), cross[0], later, tgt_is_causal=True, memory_key_padding_mask=~source_mask
        )
        return self.output(states), [tokens]
