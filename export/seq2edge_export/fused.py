"""Operators that onnxruntime has and ONNX has not, emitted while the model is traced; needs torch.

The modules ask ``wanted()`` and compute plain mathematics otherwise: in PyTorch itself, and for the portable dialect.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

DOMAIN = "com.microsoft"
_wanted = ContextVar("fused_operators_wanted", default=False)


@contextmanager
def operators(wanted: bool) -> Iterator[None]:
    """Say whether traces in this context may use fused operators."""
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)


def wanted() -> bool:
    return _wanted.get() and torch.onnx.is_in_onnx_export()


def attention(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, bias: Tensor | None, *, heads: int
) -> Tensor:
    """Multi-head attention of scaled queries (B, T, D) over keys and values (B, H, S, d), where the mask is true."""
    lowest = torch.finfo(queries.dtype).min
    if bias is None:
        bias = torch.where(mask, 0.0, lowest)  # (B or 1, 1, T or 1, S)
        bias = bias.reshape(-1, 1, *mask.shape[-2:]).expand(-1, 1, queries.shape[1], -1)  # MultiHeadAttention wants T
    else:
        bias = torch.where(mask, bias, lowest)  # (B or 1, H, T, S)
    return torch.onnx.ops.symbolic(
        f"{DOMAIN}::MultiHeadAttention",
        [queries, keys, values, None, None, bias],
        attrs={"num_heads": heads, "scale": 1.0},
        dtype=queries.dtype,
        shape=queries.shape,
        version=1,
    )
