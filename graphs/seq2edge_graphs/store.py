"""Store weights in fewer bits; they are widened again when the graph is loaded; needs numpy and onnx-ir.

The graph computes in float32 all the same: onnxruntime folds the widening into a constant while it loads.
"""

import numpy as np
import onnx_ir as ir

MATRIX_ELEMENTS = 1024  # smaller tensors are not worth the trouble


def store_fp16(model: ir.Model) -> None:
    """Keep every large float32 tensor as float16."""
    for value in _large_floats(model):
        _store_half(model, value)


def store_int8(model: ir.Model) -> None:
    """Keep every matrix as 8-bit integers with one scale an output channel; position tables as float16."""
    for value in _large_floats(model):
        if _is_matrix(value):
            _store_integers(model, value)
        else:
            _store_half(model, value)


def _store_half(model: ir.Model, value: ir.Value) -> None:
    narrow = _add_constant(model, value, "fp16", _numbers(value).astype(np.float16))
    _widen(model, value, narrow, scale=None)


def _store_integers(model: ir.Model, value: ir.Value) -> None:
    integers, scale = quantize_channels(_numbers(value), channel_axis=_channel_axis(value))
    narrow = _add_constant(model, value, "int8", integers)
    _widen(model, value, narrow, scale=_add_constant(model, value, "scale", scale))


def quantize_channels(numbers: np.ndarray, *, channel_axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Round to integers from -127 to 127; numbers are about integers times scale."""
    largest = np.abs(numbers).max(axis=1 - channel_axis, keepdims=True)
    scale = (np.where(largest > 0, largest, 1) / 127).astype(np.float32)
    return np.rint(numbers / scale).astype(np.int8), scale


def _large_floats(model: ir.Model) -> list[ir.Value]:
    constants = [value for value in model.graph.initializers.values() if value.const_value is not None]
    return [
        value for value in constants if value.dtype == ir.DataType.FLOAT and _numbers(value).size >= MATRIX_ELEMENTS
    ]


def _numbers(value: ir.Value) -> np.ndarray:
    assert value.const_value is not None
    return value.const_value.numpy()


def _is_matrix(value: ir.Value) -> bool:
    """Whether it is multiplied with or looked up in, unlike a position table, which is sliced."""
    return all(user.op_type in ("MatMul", "Gemm", "Gather") for user, _ in value.uses())


def _channel_axis(value: ir.Value) -> int:
    """Embedding rows and transposed products have their channels first, plain products last."""
    return 1 if all(user.op_type == "MatMul" for user, _ in value.uses()) else 0


def _add_constant(model: ir.Model, of: ir.Value, suffix: str, content: np.ndarray) -> ir.Value:
    tensor = ir.tensor(content, name=f"{of.name}.{suffix}")
    kind, shape = ir.TensorType(tensor.dtype), ir.Shape(content.shape)
    constant = ir.Value(name=tensor.name, shape=shape, type=kind, const_value=tensor)
    model.graph.register_initializer(constant)
    return constant


def _widen(model: ir.Model, value: ir.Value, narrow: ir.Value, *, scale: ir.Value | None) -> None:
    """Let all users of ``value`` read the narrow constant, cast and scaled; the result takes over its name."""
    nodes = [ir.node("Cast", [narrow], attributes={"to": ir.DataType.FLOAT.value})]
    if scale is not None:
        nodes[0].outputs[0].name = f"{value.name}.unscaled"
        nodes.append(ir.node("Mul", [nodes[-1].outputs[0], scale]))
    wide = nodes[-1].outputs[0]
    wide.name, wide.shape, wide.type = value.name, value.shape, value.type
    for user, place in tuple(value.uses()):
        user.replace_input_with(place, wide)
    del model.graph.initializers[str(value.name)]
    model.graph.insert_before(model.graph[0], nodes)
