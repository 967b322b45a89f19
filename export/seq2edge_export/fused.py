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


def buffered_attention(
    queries: Tensor, keys: Tensor, values: Tensor, past_keys: Tensor, past_values: Tensor, length: Tensor, *, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Causal attention of scaled queries (R, T, D) over the first tokens of buffers (R, H, L, d) and their own.

    The operator writes the new keys and values behind the ``length`` (1,) tokens that are there. Where the runtime
    binds one buffer to input and output, nothing else of it is touched.
    """
    rows, new = queries.shape[:2]
    last = (length + (new - 1)).to(torch.int32).expand(rows)  # (R,): the place of the newest token
    total = (length + new).to(torch.int32)  # (1,)
    given = torch.onnx.ops.symbolic_multi_out(
        f"{DOMAIN}::GroupQueryAttention",
        [queries, keys, values, past_keys, past_values, last, total],
        attrs={"num_heads": heads, "kv_num_heads": heads, "scale": 1.0},
        dtypes=(queries.dtype, past_keys.dtype, past_values.dtype),
        shapes=(queries.shape, past_keys.shape, past_values.shape),
        version=1,
    )
    return given[0], given[1], given[2]
