"""The same Transformer with less to compute in each attention.

1. The bias of the keys adds the same to all scores of a query, which the softmax takes out again: it is left out.
2. The bias of the values passes through unchanged, since the weights of a query add up to 1: it joins the bias of the
   output projection.
3. The scale of the queries joins their weights and bias.
4. Where the cache is in buffers, the decoder's queries, keys and values are one product.

Only float rounding differs, in the last digits. Tensors that do not change are shared with the original.
"""

from copy import deepcopy
from typing import cast

import torch
from torch import nn

from seq2edge_export.model.layers import DecoderLayer, MultiHeadAttention
from seq2edge_export.model.transformer import Transformer


def folded(model: Transformer) -> Transformer:
    """A copy that says the same."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    copy = deepcopy(model, shared)
    with torch.no_grad():
        for module in copy.modules():
            if isinstance(module, MultiHeadAttention):
                _fold_biases(module)
                _fold_scale(module)
        for layer in cast("list[DecoderLayer]", list(copy.decoder)):
            if layer.attention is not None:
                _pack(layer.attention)
    return copy


def _fold_biases(attention: MultiHeadAttention) -> None:
    passed, added = attention.value.bias, attention.output.bias
    for linear in (attention.key, attention.value):
        linear.register_parameter("bias", None)
    if passed is not None and added is not None:
        whole = added.double() + attention.output.weight.double() @ passed.double()
        attention.output.bias = nn.Parameter(whole.to(added.dtype), requires_grad=False)


def _fold_scale(attention: MultiHeadAttention) -> None:
    if attention.scale == 1:
        return
    query = attention.query
    query.weight = nn.Parameter(query.weight * attention.scale, requires_grad=False)
    if query.bias is not None:
        query.bias = nn.Parameter(query.bias * attention.scale, requires_grad=False)
    attention.scale = 1.0


def _pack(attention: MultiHeadAttention) -> None:
    """Put the three weights into one; they become parts of it, so that they take no more memory than before."""
    parts = (attention.query, attention.key, attention.value)
    width, each = attention.query.in_features, attention.query.out_features
    packed = nn.Linear(width, 3 * each, bias=attention.query.bias is not None, device="meta")
    weight = torch.cat([part.weight for part in parts])
    packed.weight = nn.Parameter(weight, requires_grad=False)
    for part, own in zip(parts, weight.split(each), strict=True):
        part.weight = nn.Parameter(own, requires_grad=False)
    if attention.query.bias is not None:  # keys and values have none
        bias = torch.cat([attention.query.bias, weight.new_zeros(2 * each)])
        packed.bias = nn.Parameter(bias, requires_grad=False)
    attention.packed = packed
