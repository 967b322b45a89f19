"""Build the small model-independent graphs with which the runtime keeps tensors on a device.

The runtime cannot build graphs itself, so it ships the files that ``python -m seq2edge_graphs.topk_graphs`` writes; a
test compares them with the graphs of this module.

1. ``likeliest``: the most likely token of each row of logits and its log-probability, for greedy search.
2. ``best``: the k most likely tokens, best first, for beam search; equal logits are ordered by token id.
3. ``select``: some rows of a tensor, for a batch that sentences leave; it also copies a tensor to a device.
4. ``product``: a few matrix products, to test whether a device works and how fast it is.

Log-probabilities are computed as in ``seq2edge.search.log_softmax``: the largest logit is subtracted first.
"""

from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir
from onnx_ir.tape import Tape

from seq2edge.devices import topk_graphs

IR_VERSION, OPSET = 10, 20  # what onnxruntime 1.24 reads


def likeliest() -> ir.Model:
    tape, logits = Tape(), _input(topk_graphs.LOGITS, ir.DataType.FLOAT, None)
    tokens = tape.op("ArgMax", [logits], {"axis": -1, "keepdims": 1})
    score = tape.op("Neg", [_log_total(tape, logits, _peak(tape, logits))])
    return _model(tape, [logits], {topk_graphs.TOKENS: tokens, topk_graphs.SCORES: score})


def best() -> ir.Model:
    tape, logits = Tape(), _input(topk_graphs.LOGITS, ir.DataType.FLOAT, None)
    count = _input(topk_graphs.COUNT, ir.DataType.INT64, (1,))
    peak = _peak(tape, logits)
    values, tokens = tape.op_multi_out("TopK", [logits, count], {"axis": -1, "largest": 1, "sorted": 1}, num_outputs=2)
    scores = tape.op("Sub", [tape.op("Sub", [values, peak]), _log_total(tape, logits, peak)])
    return _model(tape, [logits, count], {topk_graphs.TOKENS: tokens, topk_graphs.SCORES: scores})


def select(dtype: ir.DataType) -> ir.Model:
    tape, states = Tape(), _input(topk_graphs.STATES, dtype, None)
    rows = _input(topk_graphs.ROWS, ir.DataType.INT64, ("kept",))
    return _model(tape, [states, rows], {topk_graphs.SELECTED: tape.op("Gather", [states, rows], {"axis": 0})}, dtype)


def product() -> ir.Model:
    tape = Tape()
    left = _input(topk_graphs.LEFT, ir.DataType.FLOAT, ("rows", "width"))
    right = _input(topk_graphs.RIGHT, ir.DataType.FLOAT, ("width", "width"))
    result = left
    for _ in range(topk_graphs.PRODUCTS):
        result = tape.op("MatMul", [result, right])
    return _model(tape, [left, right], {topk_graphs.PRODUCT: result})


def all_graphs() -> dict[Path, ir.Model]:
    """Return every graph by the path of its file."""
    selections = {topk_graphs.select_graph(dtype): select(ir.DataType[dtype.upper()]) for dtype in topk_graphs.DTYPES}
    return {topk_graphs.LIKELIEST: likeliest(), topk_graphs.BEST: best(), topk_graphs.TRIAL: product(), **selections}


def write() -> None:
    for file, model in all_graphs().items():
        ir.save(model, file)


def _peak(tape: Tape, logits: ir.Value) -> ir.Value:
    return tape.op("ReduceMax", [logits, _last_axis(tape)])


def _log_total(tape: Tape, logits: ir.Value, peak: ir.Value) -> ir.Value:
    exponentials = tape.op("Exp", [tape.op("Sub", [logits, peak])])
    return tape.op("Log", [tape.op("ReduceSum", [exponentials, _last_axis(tape)])])


def _last_axis(tape: Tape) -> ir.Value:
    return tape.op("Constant", [], {"value_ints": [-1]})


def _input(name: str, dtype: ir.DataType, axes: Sequence[str | int] | None) -> ir.Value:
    shape = None if axes is None else ir.Shape(axes)
    return ir.Value(name=name, shape=shape, type=ir.TensorType(dtype))


def _model(
    tape: Tape, inputs: list[ir.Value], outputs: dict[str, ir.Value], dtype: ir.DataType = ir.DataType.FLOAT
) -> ir.Model:
    for name, value in outputs.items():
        value.name = name
        value.type = ir.TensorType(ir.DataType.INT64 if name == topk_graphs.TOKENS else dtype)
    nodes, opsets = tape.nodes, {"": OPSET}
    graph = ir.Graph(inputs, list(outputs.values()), nodes=nodes, opset_imports=opsets, name="device")
    return ir.Model(graph, ir_version=IR_VERSION)


if __name__ == "__main__":
    write()
