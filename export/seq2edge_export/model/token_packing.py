"""Compute the encoder without padding: its layers work on a list of tokens, and only attention on the padded batch.

Shapes at line ends are explained in ``transformer.py``; N is the number of tokens in the list.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

FEWEST = 4  # tokens of a sentence in the list: a product with a single row would add its terms in another order


class TokenPacking(NamedTuple):
    """Where the tokens of a padded batch are in the list, and the other way around."""

    places: Tensor  # (1, N): of each token in the flattened batch, B * S
    rows: Tensor  # (B, S): of each place in the list; at the padding, that of some other token

    def pack(self, states: Tensor) -> Tensor:  # (B, S, D) -> (1, N, D)
        return functional.embedding(self.places, states.flatten(0, 1))

    def unpack(self, states: Tensor) -> Tensor:  # (1, N, D) -> (B, S, D)
        return functional.embedding(self.rows, states.flatten(0, 1))

    def pack_ids(self, ids: Tensor) -> Tensor:  # (B, S) -> (1, N)
        return ids.flatten()[self.places]


def pack_tokens(mask: Tensor) -> TokenPacking:  # (B, S)
    """List the tokens of a batch by its padding mask."""
    packed = mask | (torch.arange(mask.shape[1], device=mask.device) < FEWEST)
    places = packed.flatten().nonzero().transpose(0, 1)
    return TokenPacking(places, packed.flatten().long().cumsum(0).reshape(mask.shape) - 1)
