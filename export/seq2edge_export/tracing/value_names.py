"""Name the tensors of a traced graph as in PyTorch.

People who read a graph, patterns that select layers, and the search for the layer where a bundle diverges from the
source model rely on the names.

1. A weight gets the name of its parameter. The exporter folds the transposition of a linear layer's weight into an
   unnamed constant, which is recognized by its content.
2. The output of a module gets the name of the module. The exporter records the modules in which each node was created;
   the output of a module is that of its last node. Where modules end with the same node, the outermost name is used.
"""

import ast

import onnx_ir as ir
from torch import nn

from seq2edge_graphs.bundle_writer import digest

PREFIX = "model."  # attribute of the traced modules that holds the model
SCOPES = "pkg.torch.onnx.name_scopes"


def name_weights(graph: ir.Graph, module: nn.Module) -> None:
    """Rename every constant that equals a parameter or its transpose."""
    known = _names_by_content(module)
    taken = set(graph.initializers)
    for value in tuple(graph.initializers.values()):
        constant = value.const_value
        if constant is None or constant.dtype != ir.DataType.FLOAT or not constant.shape:
            continue
        name = known.get(digest(constant))
        if name is not None and name not in taken:
            value.name = name
            taken.add(name)


def name_values(graph: ir.Graph) -> None:
    """Rename the output of every module."""
    last: dict[str, ir.Value] = {}
    for node in graph:
        for scope in ast.literal_eval(node.metadata_props.get(SCOPES, "[]"))[:-1]:
            last[scope.removeprefix(PREFIX)] = node.outputs[0]
    fixed = {"", *(value.name for value in graph.outputs)}
    for name in sorted(last, key=lambda scope: scope.count("."), reverse=True):  # the outermost is set last
        if name and last[name].name not in fixed:
            last[name].name = name


def _names_by_content(module: nn.Module) -> dict[bytes, str]:
    """Return the names of parameters and buffers by the digest of their content, also of the transposed content."""
    names: dict[bytes, str] = {}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        for layout in (tensor, tensor.t() if tensor.dim() == 2 else tensor):
            content = layout.detach().cpu().numpy()
            names.setdefault(digest(ir.Tensor(content)), name.removeprefix(PREFIX))
    return names
