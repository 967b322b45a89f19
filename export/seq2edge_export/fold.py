"""The same Transformer with less to compute in each attention; needs torch.

1. The bias of the keys adds the same to all scores of a query, which the softmax takes out again: it is left out.
2. The bias of the values passes through unchanged, since the weights of a query add up to 1: it joins the bias of the
   output projection.
3. The scale of the queries joins their weights and bias.

Only float rounding differs, in the last digits. Tensors that do not change are shared with the original.
"""

from copy import deepcopy

import torch
from torch import nn

from seq2edge_export.model import Attention, Transformer


def folded(model: Transformer) -> Transformer:
    """A copy that says the same."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    copy = deepcopy(model, shared)
    with torch.no_grad():
        for module in copy.modules():
            if isinstance(module, Attention):
                _fold_biases(module)
                _fold_scale(module)
    return copy


def _fold_biases(attention: Attention) -> None:
    passed, added = attention.value.bias, attention.output.bias
    for linear in (attention.key, attention.value):
        linear.register_parameter("bias", None)
    if passed is not None and added is not None:
        whole = added.double() + attention.output.weight.double() @ passed.double()
        attention.output.bias = nn.Parameter(whole.to(added.dtype), requires_grad=False)


def _fold_scale(attention: Attention) -> None:
    if attention.scale == 1:
        return
    query = attention.query
    query.weight = nn.Parameter(query.weight * attention.scale, requires_grad=False)
    if query.bias is not None:
        query.bias = nn.Parameter(query.bias * attention.scale, requires_grad=False)
    attention.scale = 1.0
