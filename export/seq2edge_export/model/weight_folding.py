"""Fold weights of attention layers, so that the exported graphs compute less.

1. The bias of the keys adds the same value to all scores of a query, and the softmax cancels it: it is removed.
2. The bias of the values passes through unchanged, since the weights of a query sum to 1: it is added to the bias of
   the output projection.
3. The scale of the queries is multiplied into their weights and bias.
4. For an in-place cache, the decoder's query, key and value projections become one matrix product.

Results differ only by float rounding. Tensors that do not change are shared with the source model.
"""

from copy import deepcopy
from typing import cast

import torch
from torch import nn

from seq2edge_export.model.layers import DecoderLayer, MultiHeadAttention
from seq2edge_export.model.transformer import Transformer


def fold_weights(model: Transformer) -> Transformer:
    """Return an equivalent copy."""
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
    value_bias, output_bias = attention.value.bias, attention.output.bias
    for linear in (attention.key, attention.value):
        linear.register_parameter("bias", None)
    if value_bias is not None and output_bias is not None:
        combined = output_bias.double() + attention.output.weight.double() @ value_bias.double()
        attention.output.bias = nn.Parameter(combined.to(output_bias.dtype), requires_grad=False)


def _fold_scale(attention: MultiHeadAttention) -> None:
    if attention.scale == 1:
        return
    query = attention.query
    query.weight = nn.Parameter(query.weight * attention.scale, requires_grad=False)
    if query.bias is not None:
        query.bias = nn.Parameter(query.bias * attention.scale, requires_grad=False)
    attention.scale = 1.0


def _pack(attention: MultiHeadAttention) -> None:
    """Concatenate the three weights; each becomes a view of the result, so that they take no more memory."""
    projections = (attention.query, attention.key, attention.value)
    width, inner_width = attention.query.in_features, attention.query.out_features
    packed = nn.Linear(width, 3 * inner_width, bias=attention.query.bias is not None, device="meta")
    weight = torch.cat([projection.weight for projection in projections])
    packed.weight = nn.Parameter(weight, requires_grad=False)
    for projection, view in zip(projections, weight.split(inner_width), strict=True):
        projection.weight = nn.Parameter(view, requires_grad=False)
    if attention.query.bias is not None:  # keys and values have none
        bias = torch.cat([attention.query.bias, weight.new_zeros(2 * inner_width)])
        packed.bias = nn.Parameter(bias, requires_grad=False)
    attention.packed = packed
