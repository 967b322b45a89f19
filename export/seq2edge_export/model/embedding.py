"""Tokens and their places as vectors, and distances as what attention adds to its scores."""

import math

import torch
from torch import Tensor, nn

from seq2edge.config.architecture import Architecture
from seq2edge_export.model.layers import norm_of


class Embedding(nn.Module):
    """Token vectors times the root of the width or another factor, plus a vector for each position.

    With ``zero_start`` the token at the very beginning counts for nothing, whatever it is.
    """

    positions: Tensor | None

    def __init__(self, shape: Architecture, tokens: nn.Embedding, dropout: float, *, zero_start: bool = False) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = math.sqrt(shape.width) if shape.embedding_scale is None else shape.embedding_scale
        self.zero_start = zero_start
        self.norm = norm_of(shape) if shape.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        if shape.positions == "learned":
            self.positions = nn.Parameter(torch.empty(shape.max_positions, shape.width))
        else:
            table = sinusoids(shape) if shape.positions.startswith("sinusoidal") else None
            self.register_buffer("positions", table, persistent=False)

    def forward(self, ids: Tensor, places: Tensor) -> Tensor:
        """The vectors of ids (B, T) at these places (T,), or (B, T) where those of the rows differ."""
        positions = None if self.positions is None else self.positions[places]  # (T, D) or (B, T, D)
        states = self.tokens(ids) * self.scale  # (B, T, D)
        if self.zero_start:
            states = states * (places > 0)[..., None]
        if positions is not None:
            states = states + positions
        return self.dropout(self.norm(states))


class RelativeBias(nn.Module):
    """What each head adds to its scores for how far a key is from the query; far distances share a bucket."""

    buckets: Tensor

    def __init__(self, shape: Architecture, *, both_ways: bool) -> None:
        super().__init__()
        self.farthest = shape.relative_distance
        self.heads = nn.Embedding(shape.relative_buckets, shape.heads)
        self.register_buffer("buckets", distance_buckets(shape, both_ways=both_ways), persistent=False)

    def forward(self, past: int, new: int) -> Tensor:
        places = torch.arange(past + new, device=self.buckets.device)
        distances = places[None, :] - places[past:, None]  # (T, P + T)
        buckets = self.buckets[distances.clamp(-self.farthest, self.farthest) + self.farthest]
        return self.heads(buckets).permute(2, 0, 1)[None]  # (1, H, T, P + T)


def sinusoids(shape: Architecture) -> Tensor:
    """Waves of growing length, sine and cosine of each; computed in double precision."""
    stretched = shape.positions == "sinusoidal_stretched"  # the last wave is then the longest, and not the one behind
    waves = torch.arange(0, shape.width, 2, dtype=torch.float64, device="cpu") / (shape.width - 2 * stretched)
    positions = shape.position_offset + torch.arange(shape.max_positions, dtype=torch.float64, device="cpu")
    angles = positions[:, None] * 10_000.0**-waves  # (positions, D / 2)
    if shape.positions != "sinusoidal":
        return torch.cat([angles.sin(), angles.cos()], dim=1).float()
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1).float()


def distance_buckets(shape: Architecture, *, both_ways: bool) -> Tensor:
    """The bucket of every distance (key minus query) from the farthest before to the farthest behind.

    Half of the buckets are for one distance each, the others for ranges that grow. It is a table, as the logarithm of
    another runtime could round a distance into the next bucket.
    """
    distances = torch.arange(-shape.relative_distance, shape.relative_distance + 1, device="cpu")
    count = shape.relative_buckets // 2 if both_ways else shape.relative_buckets
    steps = distances.abs() if both_ways else (-distances).clamp(min=0)
    near = count // 2
    growth = torch.log(steps.float() / near) / math.log(shape.relative_distance / near)  # minus infinity at 0
    far = (near + (growth * (count - near)).clamp(min=0).long()).clamp(max=count - 1)
    buckets = torch.where(steps < near, steps, far)
    return buckets + (distances > 0) * count if both_ways else buckets
