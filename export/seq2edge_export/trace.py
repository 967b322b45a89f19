"""Trace the model into an encoder graph and a decoder graph; needs torch and onnxscript."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import onnx_ir as ir
import torch
from torch import Tensor, nn
from torch.export import Dim

from seq2edge import names
from seq2edge.bundle import Dialect
from seq2edge_export import fused
from seq2edge_export.graph_names import name_values, name_weights
from seq2edge_export.model import KeysValues, Transformer

OPSET = 20


class EncoderGraph(nn.Module):
    """Source ids and mask to the cross-attention keys and values of every decoder layer."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:  # (B, S), (B, S)
        return _flat(self.model.encode(source, source_mask))


class DecoderGraph(nn.Module):
    """New target ids, the rows they continue and the cache to the last logits and the new cache."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, target: Tensor, rows: Tensor, source_mask: Tensor, cross: list[Tensor], past: list[Tensor]
    ) -> list[Tensor]:
        chosen = rows.flatten()  # (R,): B sentences with K rows each
        selected = [tensor.index_select(0, chosen) for tensor in past]  # (R, H, P, d)
        decoded = self.model.decode(target.flatten(0, 1), _paired(cross), source_mask, _paired(selected))
        logits = self.model.output(decoded.states[:, -1]).unflatten(0, target.shape[:2])  # (B, K, V)
        return [logits, *_flat(decoded.present)]


def trace_encoder(model: Transformer, dialect: Dialect) -> ir.Model:
    batch, length = Dim("batch"), Dim("source_length")
    source = torch.zeros(2, 3, dtype=torch.int64)
    return _export(
        EncoderGraph(model),
        dialect,
        (source, source > -1),
        inputs=[names.SOURCE, names.SOURCE_MASK],
        outputs=names.cross(model.shape.decoder_layers),
        dynamic=({0: batch, 1: length}, {0: batch, 1: length}),
    )


def trace_decoder(model: Transformer, dialect: Dialect) -> ir.Model:
    shape = model.shape
    layers, heads, head = shape.decoder_layers, shape.heads, shape.head_width
    axes = ("batch", "rows_per_sentence", "new_length", "source_length", names.PAST_ROWS, names.PAST_LENGTH)
    batch, rows, new, length, kept, old = (Dim(name) for name in axes)
    target = torch.zeros(2, 3, 4, dtype=torch.int64)
    cross = [torch.zeros(2, heads, 5, head) for _ in range(2 * layers)]
    past = [torch.zeros(7, heads, 8, head) for _ in range(2 * layers)]
    return _export(
        DecoderGraph(model),
        dialect,
        (target, target[:, :, 0], torch.ones(2, 5, dtype=torch.bool), cross, past),
        inputs=[names.TARGET, names.ROWS, names.SOURCE_MASK, *names.cross(layers), *names.past(layers)],
        outputs=[names.LOGITS, *names.present(layers)],
        dynamic=(
            {0: batch, 1: rows, 2: new},
            {0: batch, 1: rows},
            {0: batch, 1: length},
            [{0: batch, 2: length}] * len(cross),
            [{0: kept, 2: old}] * len(past),
        ),
    )


def _export(
    module: nn.Module,
    dialect: Dialect,
    example: tuple[Any, ...],
    *,
    inputs: list[str],
    outputs: list[str],
    dynamic: tuple[Any, ...],
) -> ir.Model:
    with torch.no_grad(), _quiet(), fused.operators(dialect == "ort"):
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
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _flat(layers: list[KeysValues]) -> list[Tensor]:
    return [tensor for layer in layers for tensor in layer]


def _paired(tensors: list[Tensor]) -> list[KeysValues]:
    return [KeysValues(*tensors[place : place + 2]) for place in range(0, len(tensors), 2)]
