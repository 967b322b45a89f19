"""What the graphs of a bundle must take and give, so that the runtime can call them."""

from collections.abc import Collection, Iterable, Mapping

from seq2edge.bundle import tensor_names
from seq2edge.bundle.onnx_file import OnnxFile, Value
from seq2edge.errors import BundleError

MOST_STATES = 4096  # cross states, or those of the cache: two for every layer
LARGEST_AXIS = 2**24  # more than the largest vocabulary
STATES = ("float32", "float16", "int64")
WORD_INPUTS = (tensor_names.WORD_MATRIX, tensor_names.WORD_SCALES, tensor_names.WORD_BIAS)
# What a decoder reads besides its states, by the form of its cache: types and how many axes.
GROWING = {tensor_names.TARGET: ("int64", 3), tensor_names.ROWS: ("int64", 2), tensor_names.SOURCE_MASK: ("bool", 2)}
BUFFERED = {
    tensor_names.TARGET: ("int64", 3),
    tensor_names.POSITIONS: ("int64", 1),
    tensor_names.LAST: ("int32", 1),
    tensor_names.TOTAL: ("int32", 1),
    tensor_names.WANTED: ("int64", 1),
    tensor_names.SOURCE_BIAS: ("float32", 4),
}


def check_graph_signatures(graphs: Mapping[str, OnnxFile]) -> None:
    """Refuse graphs, by the names of their files, that do not fit together or not what the runtime gives them."""
    cross = _check_encoder(graphs[tensor_names.ENCODER])
    logits = {tensor_names.LOGITS: 2 if _is_buffered(graphs[tensor_names.DECODER]) else 3}
    _check_decoder(graphs[tensor_names.DECODER], cross, logits)
    if tensor_names.SHORT_DECODER in graphs:
        words = _check_words(
            graphs[tensor_names.SHORT_DECODER], graphs[tensor_names.WORDS_GRAPH], axes=logits[tensor_names.LOGITS]
        )
        _check_decoder(graphs[tensor_names.SHORT_DECODER], cross, logits, words)
    if (scorer := graphs.get(tensor_names.SCORER)) is not None:
        _check_decoder(scorer, cross, {tensor_names.ALL_LOGITS: 4, tensor_names.ATTENTION: 5})
        _check_sizes(scorer, [_find(scorer, tensor_names.ATTENTION)], {1, 2})  # layers and heads


def _check_encoder(encoder: OnnxFile) -> dict[str, Value]:
    """Gives the cross states."""
    _check_inputs(encoder, {tensor_names.SOURCE: ("int64", 2), tensor_names.SOURCE_MASK: ("bool", 2)})
    _check_count(encoder, len(encoder.outputs))
    for output in encoder.outputs:
        if not tensor_names.is_cross(output.name) or output.type not in STATES or not output.shape:
            raise _wrong(encoder, f"it gives {_shown(output)}, which is no state that a decoder reads")
        _check_axes(encoder, output)
    return {output.name: output for output in encoder.outputs}


def _check_words(decoder: OnnxFile, gatherer: OnnxFile, *, axes: int) -> set[str]:
    """What a decoder reads of the words of a shortlist must be what the graph that gathers them gives."""
    _check_inputs(gatherer, {tensor_names.WORDS: ("int64", 1)})
    read = {value.name: value for value in decoder.inputs if value.name in WORD_INPUTS}
    given = {value.name: value for value in gatherer.outputs}
    bias = read.get(tensor_names.WORD_BIAS)
    if bias is None or (bias.type, len(bias.shape or ())) != ("float32", axes):
        raise _wrong(decoder, f"it has no {tensor_names.WORD_BIAS!r} of float32 with {axes} axes")
    wanted = read.keys() - {tensor_names.WORD_BIAS}
    if tensor_names.WORD_MATRIX not in wanted or given.keys() - {tensor_names.WORD_BIAS} != wanted:
        raise _wrong(gatherer, f"it gives {sorted(given)}, but the decoder reads {sorted(read)}")
    for name in wanted:
        if (given[name].type, _fixed(given[name])) != (read[name].type, _fixed(read[name])):
            raise _wrong(gatherer, f"it gives {_shown(given[name])}, but the decoder reads {_shown(read[name])}")
    return set(read)


def _check_decoder(
    decoder: OnnxFile, cross: dict[str, Value], wanted: dict[str, int], words: Collection[str] = ()
) -> None:
    """``wanted``: the outputs that it must have, with so many axes; ``words``: inputs that another graph gives."""
    states = [value for value in decoder.inputs if tensor_names.is_past(value.name)]
    given = [value for value in decoder.inputs if tensor_names.is_cross(value.name)]
    buffered = _is_buffered(decoder)
    form = BUFFERED if buffered else GROWING
    _check_inputs(decoder, form, ignored={*words, *(value.name for value in (*states, *given))})
    _check_count(decoder, len(states))
    for value in given:
        made = cross.get(value.name)
        if made is None or (made.type, _fixed(made)) != (value.type, _fixed(value)):
            raise _wrong(decoder, f"it reads {_shown(value)}, which the encoder does not give")
    if buffered and [value.name for value in given] != list(cross):
        raise _wrong(decoder, "it does not read the states of the encoder in their order")
    for value in states:
        _check_state(decoder, value)
    if buffered:
        _check_buffers(decoder, [*given, *states])
    if buffered and tensor_names.LOGITS in wanted and not words:
        _check_sizes(decoder, [_find(decoder, tensor_names.LOGITS)], {1})  # the vocabulary
    _check_outputs(decoder, wanted, states, buffered=buffered)


def _check_state(decoder: OnnxFile, value: Value) -> None:
    axes = {axis for axis in value.shape or () if isinstance(axis, str) or axis is None}
    if value.type not in STATES or not value.shape or not axes <= {tensor_names.PAST_ROWS, tensor_names.PAST_LENGTH}:
        raise _wrong(decoder, f"it reads {_shown(value)}, which is no cache of rows and lengths")
    _check_axes(decoder, value)


def _check_buffers(decoder: OnnxFile, values: list[Value]) -> None:
    """All of one kind, as they are one array."""
    kinds = {(value.type, _fixed(value)) for value in values}
    if len(kinds) != 1 or values[0].type != "float32" or len(values[0].shape or ()) != 4:
        raise _wrong(decoder, "its cache and the states of the encoder are not of one shape")
    _check_sizes(decoder, values, {1, 3})  # heads and their width
    if 2 * sum(tensor_names.is_past(value.name) for value in values) != len(values):
        raise _wrong(decoder, "it has not as many caches as states of the encoder")


def _check_outputs(decoder: OnnxFile, wanted: dict[str, int], states: list[Value], *, buffered: bool) -> None:
    for name, axes in wanted.items():
        value = _find(decoder, name)
        if value.type != "float32" or len(value.shape or ()) != axes:
            raise _wrong(decoder, f"it gives {_shown(value)}, but should give it as float32 with {axes} axes")
        _check_axes(decoder, value)
    if tensor_names.LOGITS not in wanted:
        return
    for state in states:
        _check_next(decoder, state)
    first, *present = (value.name for value in decoder.outputs)
    if buffered:
        _find(decoder, tensor_names.LOG_TOTALS)
        missing = {tensor_names.present_of(value.name) for value in states} - set(present)
        if missing or len(present) != len(states) + 1:
            raise _wrong(decoder, "what it gives is not the logits, their totals and the next cache")
    elif first != tensor_names.LOGITS or len(present) != len(states):
        raise _wrong(decoder, "what it gives is not the logits and the next cache")


def _check_next(decoder: OnnxFile, state: Value) -> None:
    """What a call leaves must be what the next one reads: nobody converts it on the way."""
    left = _find(decoder, tensor_names.present_of(state.name))
    if left.type != state.type:
        raise _wrong(decoder, f"it reads {_shown(state)}, but leaves it as {left.type or 'unknown'} to the next call")


def _check_inputs(graph: OnnxFile, wanted: dict[str, tuple[str, int]], ignored: Iterable[str] = ()) -> None:
    found = {value.name: (value.type, len(value.shape or ())) for value in graph.inputs}
    if len(found) < len(graph.inputs):
        raise _wrong(graph, "it has two inputs of one name")
    rest = {name: kind for name, kind in found.items() if name not in set(ignored)}
    if rest != wanted:
        raise _wrong(graph, f"it reads {_listed(rest)}, but should read {_listed(wanted)}")


def _check_count(graph: OnnxFile, states: int) -> None:
    if not states <= MOST_STATES:
        raise _wrong(graph, f"it has {states:,} states")


def _check_axes(graph: OnnxFile, value: Value) -> None:
    if any(isinstance(axis, int) and not 0 <= axis <= LARGEST_AXIS for axis in value.shape or ()):
        raise _wrong(graph, f"it has {_shown(value)}, which is larger than anything")


def _check_sizes(graph: OnnxFile, values: Iterable[Value], axes: set[int]) -> None:
    """These axes must have a size."""
    for value in values:
        if any(not isinstance((value.shape or ())[axis], int) or not (value.shape or ())[axis] for axis in axes):
            raise _wrong(graph, f"it has {_shown(value)}, which does not say how large it is")


def _find(graph: OnnxFile, name: str) -> Value:
    found = [value for value in graph.outputs if value.name == name]
    if len(found) != 1:
        raise _wrong(graph, f"it has {len(found)} outputs {name!r}")
    return found[0]


def _is_buffered(decoder: OnnxFile) -> bool:
    return tensor_names.LAST in {value.name for value in decoder.inputs}


def _fixed(value: Value) -> tuple[int | None, ...]:
    """The axes that do not change from call to call."""
    return tuple(axis if isinstance(axis, int) else None for axis in value.shape or ())


def _shown(value: Value) -> str:
    return f"{value.name!r} of the type {value.type or 'unknown'} and the shape {value.shape}"


def _listed(kinds: dict[str, tuple[str, int]]) -> str:
    return ", ".join(f"{name!r} ({kind}, {axes} axes)" for name, (kind, axes) in sorted(kinds.items())) or "nothing"


def _wrong(graph: OnnxFile, why: str) -> BundleError:
    return BundleError(f"{graph.path} cannot be called: {why}; export the bundle again")
