"""Token embeddings, position embeddings and the relative position bias of T5."""

import math

import torch
from torch import Tensor, nn

from seq2edge.config.architecture import Architecture
from seq2edge_export.model.layers import make_norm


class Embedding(nn.Module):
    """Token embeddings times a scale, by default the square root of the width, plus position embeddings.

    With ``zero_start`` the embedding of the first token is zero, whatever the token is.
    """

    positions: Tensor | None

    def __init__(
        self, architecture: Architecture, tokens: nn.Embedding, dropout: float, *, zero_start: bool = False
    ) -> None:
        super().__init__()
        width, scale = architecture.width, architecture.embedding_scale
        self.tokens = tokens
        self.scale = math.sqrt(width) if scale is None else scale
        self.zero_start = zero_start
        self.norm = make_norm(architecture) if architecture.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        if architecture.positions == "learned":
            self.positions = nn.Parameter(torch.empty(architecture.max_positions, width))
        else:
            table = sinusoids(architecture) if architecture.positions.startswith("sinusoidal") else None
            self.register_buffer("positions", table, persistent=False)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Embed ids (B, T) at positions (T,), or (B, T) where they differ between rows."""
        position_states = None if self.positions is None else self.positions[positions]  # (T, D) or (B, T, D)
        states = self.tokens(ids) * self.scale  # (B, T, D)
        if self.zero_start:
            states = states * (positions > 0)[..., None]
        if position_states is not None:
            states = states + position_states
        return self.dropout(self.norm(states))


class RelativeBias(nn.Module):
    """The bias of each head for the distance between query and key; large distances share a bucket."""

    buckets: Tensor

    def __init__(self, architecture: Architecture, *, bidirectional: bool) -> None:
        super().__init__()
        self.max_distance = architecture.relative_distance
        self.heads = nn.Embedding(architecture.relative_buckets, architecture.heads)
        table = distance_buckets(architecture, bidirectional=bidirectional)
        self.register_buffer("buckets", table, persistent=False)

    def forward(self, past: int, new: int) -> Tensor:
        positions = torch.arange(past + new, device=self.buckets.device)
        distances = positions[None, :] - positions[past:, None]  # (T, P + T)
        buckets = self.buckets[distances.clamp(-self.max_distance, self.max_distance) + self.max_distance]
        return self.heads(buckets).permute(2, 0, 1)[None]  # (1, H, T, P + T)


def sinusoids(architecture: Architecture) -> Tensor:
    """Compute the sinusoidal position embeddings in double precision."""
    width, layout = architecture.width, architecture.positions
    stretched = layout == "sinusoidal_stretched"  # the last pair then has the longest wavelength, 10000
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / (width - 2 * stretched)
    positions = torch.arange(architecture.max_positions, dtype=torch.float64, device="cpu")
    positions = architecture.position_offset + positions
    angles = positions[:, None] * 10_000.0**-exponents  # (positions, D / 2)
    if layout != "sinusoidal":
        return torch.cat([angles.sin(), angles.cos()], dim=1).float()
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1).float()


def distance_buckets(architecture: Architecture, *, bidirectional: bool) -> Tensor:
    """Return the bucket of every distance (key minus query) from minus to plus the largest one.

    Half of the buckets hold one distance each, the others ranges of growing size. It is a table because another
    runtime's logarithm could round a distance into the next bucket.
    """
    max_distance, count = architecture.relative_distance, architecture.relative_buckets
    distances = torch.arange(-max_distance, max_distance + 1, device="cpu")
    count = count // 2 if bidirectional else count
    steps = distances.abs() if bidirectional else (-distances).clamp(min=0)
    near = count // 2
    growth = torch.log(steps.float() / near) / math.log(max_distance / near)  # minus infinity at 0
    far = (near + (growth * (count - near)).clamp(min=0).long()).clamp(max=count - 1)
    buckets = torch.where(steps < near, steps, far)
    return buckets + (distances > 0) * count if bidirectional else buckets
