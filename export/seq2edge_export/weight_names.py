"""Give the constants of a traced graph the names of the parameters they are; needs torch and onnx-ir.

The exporter folds the transposition of a linear layer's weight into an unnamed constant. A name matters to people who
read a graph, to patterns that choose layers, and to the check that says which layer parts from the original.
"""

import hashlib

import onnx_ir as ir
from torch import Tensor, nn

PREFIX = "model."  # where the traced modules keep the Transformer


def name_weights(graph: ir.Graph, module: nn.Module) -> None:
    """Rename every constant whose content is a parameter's, as it is or transposed."""
    known = _names_by_content(module)
    taken = set(graph.initializers)
    for value in tuple(graph.initializers.values()):
        constant = value.const_value
        if constant is None or constant.dtype != ir.DataType.FLOAT or not constant.shape:
            continue
        name = known.get(hashlib.sha256(constant.tobytes()).digest())
        if name is not None and name not in taken:
            value.name = name
            taken.add(name)


def _names_by_content(module: nn.Module) -> dict[bytes, str]:
    """The name of every parameter and buffer, by the bytes it has as it is and transposed."""
    names: dict[bytes, str] = {}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        for form in (tensor, tensor.t() if tensor.dim() == 2 else tensor):
            names.setdefault(_digest(form), name.removeprefix(PREFIX))
    return names


def _digest(tensor: Tensor) -> bytes:
    return hashlib.sha256(tensor.detach().cpu().contiguous().numpy().tobytes()).digest()
