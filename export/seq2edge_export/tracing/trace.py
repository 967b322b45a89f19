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
from seq2edge_export.tracing.graph_modules import ENCODER_INPUTS, GraphModules, TensorSpec
from seq2edge_export.tracing.value_names import name_values, name_weights

OPSET = 20
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
    return _export(
        graphs.traced.encoder,
        dialect,
        tuple(spec.zeros(EXAMPLE) for spec in ENCODER_INPUTS),
        inputs=[spec.name for spec in ENCODER_INPUTS],
        outputs=[state.name for state in graphs.cross],
        dynamic=tuple(_dynamic_axes(spec) for spec in ENCODER_INPUTS),
    )


def trace_decoder(graphs: GraphModules, dialect: Dialect) -> ir.Model:
    """Trace the decoder with the outputs of all graphs that are split from it afterwards."""
    decoder, states = graphs.decoder_graphs[dialect], (graphs.cross, graphs.past)
    return _export(
        decoder.module,
        dialect,
        (*(spec.zeros(EXAMPLE) for spec in decoder.inputs), *([s.zeros(EXAMPLE) for s in group] for group in states)),
        inputs=[spec.name for spec in (*decoder.inputs, *graphs.cross, *graphs.past)],
        outputs=[name for names in decoder.outputs.values() for name in names],
        dynamic=(*map(_dynamic_axes, decoder.inputs), *([_dynamic_axes(state) for state in group] for group in states)),
    )


def _dynamic_axes(spec: TensorSpec) -> dict[int, Dim]:
    return {index: Dim(axis) for index, axis in enumerate(spec.axes) if isinstance(axis, str)}


def _export(
    module: nn.Module,
    dialect: Dialect,
    example: tuple[Any, ...],
    *,
    inputs: list[str],
    outputs: list[str],
    dynamic: tuple[Any, ...],
) -> ir.Model:
    with torch.no_grad(), _quiet(), fused_ops.use_fused_operators(dialect == "ort"):
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
        raise RuntimeError("torch.onnx.export returned no program")
    name_weights(program.model.graph, module)
    name_values(program.model.graph)
    return program.model


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's warnings about its own internals and about optional packages."""
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
