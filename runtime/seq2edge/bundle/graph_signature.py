"""Check the inputs and outputs of the graphs of a bundle, so that the runtime can call them."""

from collections.abc import Collection, Iterable, Mapping

from seq2edge.bundle import tensor_names
from seq2edge.bundle.onnx_file import OnnxFile, Value
from seq2edge.errors import BundleError

MAX_STATES = 4096  # outputs of the encoder, or entries of the cache: two for every layer
MAX_AXIS = 2**24  # more than the largest vocabulary
STATE_DTYPES = ("float32", "float16", "int64")
WORD_INPUTS = (tensor_names.WORD_MATRIX, tensor_names.WORD_SCALES, tensor_names.WORD_BIAS)
# Inputs of a decoder apart from its states, with type and number of axes: one set for each type of KV cache.
APPEND_INPUTS = {
    tensor_names.TARGET: ("int64", 3),
    tensor_names.ROWS: ("int64", 2),
    tensor_names.SOURCE_MASK: ("bool", 2),
}
INPLACE_INPUTS = {
    tensor_names.TARGET: ("int64", 3),
    tensor_names.POSITIONS: ("int64", 1),
    tensor_names.LAST: ("int32", 1),
    tensor_names.TOTAL: ("int32", 1),
    tensor_names.WANTED: ("int64", 1),
    tensor_names.SOURCE_BIAS: ("float32", 4),
}


def check_graph_signatures(graphs: Mapping[str, OnnxFile]) -> None:
    """Check that graphs, given by file name, match the encoder, each other and what the runtime passes to them."""
    cross = _check_encoder(graphs[tensor_names.ENCODER])
    if (decoder := graphs.get(tensor_names.DECODER)) is not None:
        logits = {tensor_names.LOGITS: 2 if _is_inplace(decoder) else 3}
        _check_decoder(decoder, cross, logits)
    if tensor_names.SHORT_DECODER in graphs:
        short_decoder, gatherer = graphs[tensor_names.SHORT_DECODER], graphs[tensor_names.WORDS_GRAPH]
        gathered = _check_shortlist(short_decoder, gatherer, axes=logits[tensor_names.LOGITS])
        _check_decoder(short_decoder, cross, logits, gathered)
    if (scorer := graphs.get(tensor_names.SCORER)) is not None:
        _check_decoder(scorer, cross, {tensor_names.ALL_LOGITS: 4, tensor_names.ATTENTION: 5})
        _check_sizes(scorer, [_find(scorer, tensor_names.ATTENTION)], {1, 2})  # layers and heads


def _check_encoder(encoder: OnnxFile) -> dict[str, Value]:
    """Check the encoder and return its outputs, the cross-attention states, by name."""
    _check_inputs(encoder, {tensor_names.SOURCE: ("int64", 2), tensor_names.SOURCE_MASK: ("bool", 2)})
    _check_count(encoder, len(encoder.outputs))
    for output in encoder.outputs:
        if not tensor_names.is_cross(output.name) or output.type not in STATE_DTYPES or not output.shape:
            raise _wrong(encoder, f"its output {_describe(output)} is not a state that a decoder reads")
        _check_axes(encoder, output)
    return {output.name: output for output in encoder.outputs}


def _check_shortlist(decoder: OnnxFile, gatherer: OnnxFile, *, axes: int) -> set[str]:
    """Check that a decoder reads what the graph for the shortlist gathers, and return the names of these inputs."""
    _check_inputs(gatherer, {tensor_names.WORDS: ("int64", 1)})
    read = {value.name: value for value in decoder.inputs if value.name in WORD_INPUTS}
    gathered = {value.name: value for value in gatherer.outputs}
    bias = read.get(tensor_names.WORD_BIAS)
    if bias is None or (bias.type, len(bias.shape or ())) != ("float32", axes):
        raise _wrong(decoder, f"it lacks the input {tensor_names.WORD_BIAS!r} of type float32 with {axes} axes")
    expected = read.keys() - {tensor_names.WORD_BIAS}
    if tensor_names.WORD_MATRIX not in expected or gathered.keys() - {tensor_names.WORD_BIAS} != expected:
        raise _wrong(gatherer, f"its outputs are {sorted(gathered)}, but the decoder reads {sorted(read)}")
    for name in expected:
        output, value = gathered[name], read[name]
        if (output.type, _fixed(output)) != (value.type, _fixed(value)):
            raise _wrong(gatherer, f"its output is {_describe(output)}, but the decoder reads {_describe(value)}")
    return set(read)


def _check_decoder(
    decoder: OnnxFile, cross: dict[str, Value], outputs: dict[str, int], gathered: Collection[str] = ()
) -> None:
    """Check a decoder.

    ``outputs`` are those that it must have, with their number of axes; ``gathered`` are inputs from another graph.
    """
    past = [value for value in decoder.inputs if tensor_names.is_past(value.name)]
    read = [value for value in decoder.inputs if tensor_names.is_cross(value.name)]
    inplace = _is_inplace(decoder)
    inputs = INPLACE_INPUTS if inplace else APPEND_INPUTS
    _check_inputs(decoder, inputs, ignored={*gathered, *(value.name for value in (*past, *read))})
    _check_count(decoder, len(past))
    for value in read:
        output = cross.get(value.name)
        if output is None or (output.type, _fixed(output)) != (value.type, _fixed(value)):
            raise _wrong(decoder, f"it reads {_describe(value)}, which the encoder does not return")
    if inplace and [value.name for value in read] != list(cross):
        raise _wrong(decoder, "it does not read the outputs of the encoder in their order")
    for value in past:
        _check_past(decoder, value)
    if inplace:
        _check_buffers(decoder, [*read, *past])
    if inplace and tensor_names.LOGITS in outputs and not gathered:
        _check_sizes(decoder, [_find(decoder, tensor_names.LOGITS)], {1})  # the vocabulary
    _check_outputs(decoder, outputs, past, inplace=inplace)


def _check_past(decoder: OnnxFile, value: Value) -> None:
    axes = {axis for axis in value.shape or () if isinstance(axis, str) or axis is None}
    if (
        value.type not in STATE_DTYPES
        or not value.shape
        or not axes <= {tensor_names.PAST_ROWS, tensor_names.PAST_LENGTH}
    ):
        raise _wrong(decoder, f"it reads {_describe(value)}, which is not a cache with axes for rows and length")
    _check_axes(decoder, value)


def _check_buffers(decoder: OnnxFile, values: list[Value]) -> None:
    """Check that all values have one type and shape, as they share one array."""
    if (
        len({(value.type, _fixed(value)) for value in values}) != 1
        or values[0].type != "float32"
        or len(values[0].shape or ()) != 4
    ):
        raise _wrong(decoder, "its cache and the outputs of the encoder are not of one shape")
    _check_sizes(decoder, values, {1, 3})  # heads and their width
    if 2 * sum(tensor_names.is_past(value.name) for value in values) != len(values):
        raise _wrong(decoder, "it does not read as many cache entries as outputs of the encoder")


def _check_outputs(decoder: OnnxFile, outputs: dict[str, int], past: list[Value], *, inplace: bool) -> None:
    for name, axes in outputs.items():
        value = _find(decoder, name)
        if value.type != "float32" or len(value.shape or ()) != axes:
            raise _wrong(decoder, f"its output {_describe(value)} should have the type float32 and {axes} axes")
        _check_axes(decoder, value)
    if tensor_names.LOGITS not in outputs:
        return
    for value in past:
        _check_present(decoder, value)
    first, *present = (value.name for value in decoder.outputs)
    if inplace:
        _find(decoder, tensor_names.LOG_TOTALS)
        missing = {tensor_names.present_of(value.name) for value in past} - set(present)
        if missing or len(present) != len(past) + 1:
            raise _wrong(decoder, "its outputs are not the logits, their log-normalizers and the next cache")
    elif first != tensor_names.LOGITS or len(present) != len(past):
        raise _wrong(decoder, "its outputs are not the logits and the next cache")


def _check_present(decoder: OnnxFile, past: Value) -> None:
    """Check that a call returns what the next call reads, as the runtime does not convert it."""
    present = _find(decoder, tensor_names.present_of(past.name))
    if present.type != past.type:
        raise _wrong(decoder, f"it reads {_describe(past)}, but returns it as {present.type or 'unknown'}")


def _check_inputs(graph: OnnxFile, expected: dict[str, tuple[str, int]], ignored: Iterable[str] = ()) -> None:
    inputs = {value.name: (value.type, len(value.shape or ())) for value in graph.inputs}
    if len(inputs) < len(graph.inputs):
        raise _wrong(graph, "it has two inputs of the same name")
    checked = {name: signature for name, signature in inputs.items() if name not in set(ignored)}
    if checked != expected:
        raise _wrong(graph, f"its inputs are {_listed(checked)}, but should be {_listed(expected)}")


def _check_count(graph: OnnxFile, states: int) -> None:
    if not states <= MAX_STATES:
        raise _wrong(graph, f"it has {states:,} states, but at most {MAX_STATES:,} are allowed")


def _check_axes(graph: OnnxFile, value: Value) -> None:
    if any(isinstance(axis, int) and not 0 <= axis <= MAX_AXIS for axis in value.shape or ()):
        raise _wrong(graph, f"it has {_describe(value)}, which is too large")


def _check_sizes(graph: OnnxFile, values: Iterable[Value], axes: set[int]) -> None:
    """Check that these axes have a fixed size."""
    for value in values:
        if any(not isinstance((value.shape or ())[axis], int) or not (value.shape or ())[axis] for axis in axes):
            raise _wrong(graph, f"it has {_describe(value)}, but its axes {sorted(axes)} must have fixed sizes")


def _find(graph: OnnxFile, name: str) -> Value:
    outputs = [value for value in graph.outputs if value.name == name]
    if len(outputs) != 1:
        raise _wrong(graph, f"it has {len(outputs)} outputs {name!r} instead of 1")
    return outputs[0]


def _is_inplace(decoder: OnnxFile) -> bool:
    return tensor_names.LAST in {value.name for value in decoder.inputs}


def _fixed(value: Value) -> tuple[int | None, ...]:
    """Return the sizes of the axes, with None for those that change from call to call."""
    return tuple(axis if isinstance(axis, int) else None for axis in value.shape or ())


def _describe(value: Value) -> str:
    return f"{value.name!r} of type {value.type or 'unknown'} and shape {value.shape}"


def _listed(inputs: dict[str, tuple[str, int]]) -> str:
    return ", ".join(f"{name!r} ({dtype}, {axes} axes)" for name, (dtype, axes) in sorted(inputs.items())) or "none"


def _wrong(graph: OnnxFile, why: str) -> BundleError:
    return BundleError(f"{graph.path} cannot be called: {why}; export the bundle again")
