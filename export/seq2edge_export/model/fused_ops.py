"""Operators that onnxruntime has and ONNX has not, emitted while the model is traced.

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


def attention(queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor, *, heads: int) -> Tensor:
    """Multi-head attention of scaled queries (B, T, D) over keys and values (B, H, S, d).

    The bias (B or 1, H or 1, T, S) is added to the scores.
    """
    return torch.onnx.ops.symbolic(
        f"{DOMAIN}::MultiHeadAttention",
        [queries, keys, values, None, None, bias],
        attrs={"num_heads": heads, "scale": 1.0},
        dtype=queries.dtype,
        shape=queries.shape,
        version=1,
    )


def bias_of(mask: Tensor, bias: Tensor | None, queries: Tensor) -> Tensor:
    """What the operator adds to its scores: the bias where the mask is true, and the lowest number elsewhere."""
    lowest = torch.finfo(queries.dtype).min
    if bias is not None:
        return torch.where(mask, bias, lowest)  # (B or 1, H, T, S)
    bias = torch.where(mask, 0.0, lowest)  # (B or 1, 1, T or 1, S)
    return bias.reshape(-1, 1, *mask.shape[-2:]).expand(-1, 1, queries.shape[1], -1)  # MultiHeadAttention wants T


def buffered_attention(
    packed: Tensor, past_keys: Tensor, past_values: Tensor, last: Tensor, total: Tensor, *, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Causal attention over the first tokens of buffers (R, H, L, d) and new ones, which are written behind them.

    ``packed`` (R, T, 3 * D) has scaled queries, keys and values side by side; ``last`` (R,) is the place of each row's
    newest token in the buffers, ``total`` (1,) how many tokens are in them then. Where the runtime binds one buffer to
    input and output, nothing else of it is touched.
    """
    rows, new, width = packed.shape
    given = torch.onnx.ops.symbolic_multi_out(
        f"{DOMAIN}::GroupQueryAttention",
        [packed, None, None, past_keys, past_values, last, total],
        attrs={"num_heads": heads, "kv_num_heads": heads, "scale": 1.0},
        dtypes=(packed.dtype, past_keys.dtype, past_values.dtype),
        shapes=((rows, new, width // 3), past_keys.shape, past_values.shape),
        version=1,
    )
    return given[0], given[1], given[2]
