"""Emit fused attention operators of onnxruntime while the model is traced.

The modules use them where ``enabled()``, and plain PyTorch operations otherwise: outside of a trace, and in a trace for
the portable dialect.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

DOMAIN = "com.microsoft"
_enabled = ContextVar("fused_operators_enabled", default=False)


@contextmanager
def use_fused_operators(enabled: bool) -> Iterator[None]:
    """Set whether traces in this context may use fused operators."""
    token = _enabled.set(enabled)
    try:
        yield
    finally:
        _enabled.reset(token)


def enabled() -> bool:
    return _enabled.get() and torch.onnx.is_in_onnx_export()


def attention(queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor, *, heads: int) -> Tensor:
    """Compute multi-head attention of scaled queries (B, T, D) over keys and values, (B, H, S, d) or (B, S, D).

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


def additive_mask(mask: Tensor, bias: Tensor | None, queries: Tensor) -> Tensor:
    """Return what ``attention`` adds to its scores: the bias where the mask is true, the lowest float elsewhere."""
    lowest = torch.finfo(queries.dtype).min
    if bias is not None:
        return torch.where(mask, bias, lowest)  # (B or 1, H, T, S)
    bias = torch.where(mask, 0.0, lowest)  # (B or 1, 1, T or 1, S)
    return bias.reshape(-1, 1, *mask.shape[-2:]).expand(-1, 1, queries.shape[1], -1)  # MultiHeadAttention requires T


def inplace_attention(
    packed: Tensor, past_keys: Tensor, past_values: Tensor, last: Tensor, total: Tensor, *, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute causal attention over a preallocated cache (R, H, L, d) and write the new keys and values into it.

    ``packed`` (R, T, 3 * D) holds the scaled queries, the keys and the values; ``last`` (R,) is the position of each
    row's newest token, ``total`` (1,) the number of tokens including the new ones. Where the runtime binds the same
    array to input and output, only the new positions are written.
    """
    rows, new, width = packed.shape
    outputs = torch.onnx.ops.symbolic_multi_out(
        f"{DOMAIN}::GroupQueryAttention",
        [packed, None, None, past_keys, past_values, last, total],
        attrs={"num_heads": heads, "kv_num_heads": heads, "scale": 1.0},
        dtypes=(packed.dtype, past_keys.dtype, past_values.dtype),
        shapes=((rows, new, width // 3), past_keys.shape, past_values.shape),
        version=1,
    )
    return outputs[0], outputs[1], outputs[2]


def row_log(values: Tensor) -> Tensor:  # (R, 1) -> (R,)
    """Compute the logarithm of each row by itself.

    The Log operator takes several values at once and the rest one by one, with other rounding: the logarithm of a row
    would depend on the number of rows.
    """
    return torch.onnx.ops.symbolic(
        "ReduceLogSum",
        [values, torch.tensor([1])],
        attrs={"keepdims": 0},
        dtype=values.dtype,
        shape=values.shape[:1],
        version=18,
    )
