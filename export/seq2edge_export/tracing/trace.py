"""Trace modules into an encoder graph and a decoder graph."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import onnx_ir as ir
import torch
from torch import nn
from torch.export import Dim

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Dialect
from seq2edge_export.model import fused_ops
from seq2edge_export.tracing.graph_modules import GraphModules, State
from seq2edge_export.tracing.value_names import name_values, name_weights

OPSET = 20
SOURCE = State(tensor_names.SOURCE, (tensor_names.BATCH, tensor_names.SOURCE_LENGTH), torch.int64)
SOURCE_MASK = State(tensor_names.SOURCE_MASK, (tensor_names.BATCH, tensor_names.SOURCE_LENGTH), torch.bool)
TARGET = State(
    tensor_names.TARGET, (tensor_names.BATCH, tensor_names.ROWS_PER_SENTENCE, tensor_names.NEW_LENGTH), torch.int64
)
ROWS = State(tensor_names.ROWS, (tensor_names.BATCH, tensor_names.ROWS_PER_SENTENCE), torch.int64)
POSITIONS = State(tensor_names.POSITIONS, (tensor_names.NEW_LENGTH,), torch.int64)
LAST = State(tensor_names.LAST, (tensor_names.PAST_ROWS,), torch.int32)
TOTAL = State(tensor_names.TOTAL, (1,), torch.int32)
WANTED = State(tensor_names.WANTED, (tensor_names.WANTED_ROWS,), torch.int64)
SOURCE_BIAS = State(tensor_names.SOURCE_BIAS, (tensor_names.BATCH, 1, tensor_names.QUERIES, tensor_names.SOURCE_LENGTH))
# Sizes to trace with: all different and above 1, so that no two axes look alike and none looks constant.
EXAMPLE = {
    tensor_names.BATCH: 2,
    tensor_names.ROWS_PER_SENTENCE: 3,
    tensor_names.NEW_LENGTH: 4,
    tensor_names.SOURCE_LENGTH: 5,
    tensor_names.PAST_ROWS: 7,
    tensor_names.PAST_LENGTH: 8,
    tensor_names.WANTED_ROWS: 9,
    tensor_names.QUERIES: 10,
}


def trace_encoder(graphs: GraphModules, dialect: Dialect) -> ir.Model:
    inputs = (SOURCE, SOURCE_MASK)
    return _export(
        graphs.encoder,
        dialect,
        tuple(state.zeros(EXAMPLE) for state in inputs),
        inputs=[state.name for state in inputs],
        outputs=[state.name for state in graphs.cross],
        dynamic=tuple(_changing(state) for state in inputs),
    )


def trace_decoder(graphs: GraphModules, dialect: Dialect) -> ir.Model:
    """The decoder with all that any graph wants of it; its parts are taken from it afterwards."""
    buffered = _buffered(graphs, dialect)
    inputs = (TARGET, ROWS, SOURCE_MASK) if buffered is None else (TARGET, POSITIONS, LAST, TOTAL, WANTED, SOURCE_BIAS)
    states = (graphs.cross, graphs.past)
    return _export(
        buffered or graphs.watched or graphs.decoder,
        dialect,
        (*(state.zeros(EXAMPLE) for state in inputs), *([s.zeros(EXAMPLE) for s in group] for group in states)),
        inputs=[state.name for state in (*inputs, *graphs.cross, *graphs.past)],
        outputs=[name for part in decoder_parts(graphs, dialect).values() for name in part],
        dynamic=(*map(_changing, inputs), *([_changing(state) for state in group] for group in states)),
    )


def decoder_parts(graphs: GraphModules, dialect: Dialect) -> dict[str, list[str]]:
    """The graphs that are parts of the traced decoder, and what each gives."""
    return graphs.outputs(buffered=_buffered(graphs, dialect) is not None)


def _buffered(graphs: GraphModules, dialect: Dialect) -> nn.Module | None:
    return graphs.buffered if dialect == "ort" else None


def _changing(state: State) -> dict[int, Dim]:
    return {place: Dim(axis) for place, axis in enumerate(state.axes) if isinstance(axis, str)}


def _export(
    module: nn.Module,
    dialect: Dialect,
    example: tuple[Any, ...],
    *,
    inputs: list[str],
    outputs: list[str],
    dynamic: tuple[Any, ...],
) -> ir.Model:
    with torch.no_grad(), _quiet(), fused_ops.operators(dialect == "ort"):
        program = torch.onnx.export(
            module.eval(),
            example,
            dynamo=True,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=dynamic,
            opset_version=OPSET,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export gave no program")
    name_weights(program.model.graph, module)
    name_values(program.model.graph)
    return program.model


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which warns about itself and about packages that nothing here needs."""
    logs = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
