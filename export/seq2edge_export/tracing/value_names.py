"""Give the tensors of a traced graph the names they have in PyTorch.

A name matters to people who read a graph, to patterns that choose layers, and to the check that says in which layer a
bundle parts from the original.

1. A weight gets the name of its parameter. The exporter folds the transposition of a linear layer's weight into an
   unnamed constant; it is known by its content.
2. What a module gives gets the module's name. The exporter notes in which modules each node was made; the last node of
   a module gives its output. Where modules end together, the outermost one gives the name.
"""

import ast

import onnx_ir as ir
from torch import nn

from seq2edge_graphs.bundle_writer import digest

PREFIX = "model."  # where the traced modules keep the Transformer
SCOPES = "pkg.torch.onnx.name_scopes"


def name_weights(graph: ir.Graph, module: nn.Module) -> None:
    """Rename every constant whose content is a parameter's, as it is or transposed."""
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
    """Rename the output of every module that has one."""
    last: dict[str, ir.Value] = {}
    for node in graph:
        for scope in ast.literal_eval(node.metadata_props.get(SCOPES, "[]"))[:-1]:
            last[scope.removeprefix(PREFIX)] = node.outputs[0]
    fixed = {"", *(value.name for value in graph.outputs)}
    for name in sorted(last, key=lambda scope: scope.count("."), reverse=True):  # the outermost comes last and stays
        if name and last[name].name not in fixed:
            last[name].name = name


def _names_by_content(module: nn.Module) -> dict[bytes, str]:
    """The name of every parameter and buffer, by the bytes it has as it is and transposed."""
    names: dict[bytes, str] = {}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        for form in (tensor, tensor.t() if tensor.dim() == 2 else tensor):
            content = form.detach().cpu().numpy()
            names.setdefault(digest(ir.Tensor(content)), name.removeprefix(PREFIX))
    return names
