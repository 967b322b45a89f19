"""Fusions of onnxruntime that make graphs slower are disabled under the current names of its optimizers."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from small_graphs import constant, finish, given

from seq2edge.devices import session

WIDTH = 64


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A residual connection and its norm."""
    tape = ir.tape.Tape()
    states, update = (given(name, ["b", "t", WIDTH]) for name in ("states", "update"))
    weight, bias = (constant(tape, name, np.ones(WIDTH, np.float32)) for name in ("weight", "bias"))
    norm = tape.op("LayerNormalization", [tape.op("Add", [states, update]), weight, bias], {"axis": -1})
    ir.save(finish(tape, [states, update], {"norm": norm}), tmp_path / "graph.onnx")
    return tmp_path / "graph.onnx"


def test_a_residual_and_its_norm_are_not_fused(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optimized, default_options = graph.with_name("optimized.onnx"), session._options

    def saving_options(threads: int) -> Any:
        options = default_options(threads)
        options.optimized_model_filepath = str(optimized)
        return options

    monkeypatch.setattr(session, "_options", saving_options)
    session.open_session(graph, threads=1)
    assert [node.op_type for node in ir.load(optimized).graph] == ["Add", "LayerNormalization"]


def test_onnxruntime_fuses_them_by_default(graph: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(graph.with_name("optimized.onnx"))
    onnxruntime.InferenceSession(graph, options, ["CPUExecutionProvider"])
    assert [node.op_type for node in ir.load(options.optimized_model_filepath).graph] == ["SkipLayerNormalization"]
