"""Store weights in fewer bits and expand them to float32 when the graph is loaded.

onnxruntime folds the expansion into a constant, so the graph computes in float32. This is how float16 runs on execution
providers without float16 arithmetic, such as the CPU, and how tables are stored that nothing multiplies with. The
rounding to 8-bit integers and the bfloat16 scales are shared with ``int8.py`` and ``int4.py``.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from seq2edge_graphs.passes.graph_edit import constant, insert_first, replace_constant
from seq2edge_graphs.quantize.weights import Floats, QuantizableWeight

Integers = NDArray[np.int8]
Doubles = NDArray[np.float64]

LARGEST = 127  # magnitude of an 8-bit integer
TOLERANCE = 1e-5  # between a sinusoidal table and the computed one


def store_fp16(graph: ir.Graph, weight: QuantizableWeight) -> None:
    tape = ir.tape.Tape()
    halves = constant(graph, f"{weight.name}.fp16", weight.array().astype(np.float16))
    tape.op("Cast", [halves], {"to": ir.DataType.FLOAT.value})
    replace_constant(graph, weight.value, tape)


def store_int8(graph: ir.Graph, weight: QuantizableWeight) -> None:
    """Store a table as 8-bit integers with one scale per row."""
    integers, scale = round_rows(weight.array())
    tape = ir.tape.Tape()
    floats = tape.op("Cast", [constant(graph, f"{weight.name}.int8", integers)], {"to": ir.DataType.FLOAT.value})
    tape.op("Mul", [floats, constant(graph, f"{weight.name}.scale", scale)])
    replace_constant(graph, weight.value, tape)


def round_channels(channels: Floats, *, steps: int = 1) -> tuple[Integers, Floats]:  # (N, K)
    """Return integers (N, K) and scales (N,): a channel is about its integers times its scale times ``steps``.

    ``steps`` is the number of steps of the activations that the weights are multiplied with.

    No CPU saturates with these integers. Activations are unsigned bytes a from 0 to 255, weights signed bytes w. CPUs
    without VNNI (SSE 4.1, AVX2, first AVX-512) multiply them with an instruction, ``pmaddubsw``, that adds two
    neighbouring products into 16 bits and saturates: a1 * w1 + a2 * w2 must stay within ±32,767, or such a CPU computes
    another result than a newer one. The sum lies between 255 times the sum of the negative weights and 255 times the
    sum of the positive ones, so its magnitude is at most 255 times the largest of |w1|, |w2| and |w1 + w2|. The scale
    is chosen so that all three are at most 127 before rounding and 128 afterwards: 255 * 128 = 32,640.

    Neighbours are the inner indices 0 and 1, 2 and 3 and so on: onnxruntime's kernels read the inner axis in order,
    four elements at a time. Bounding pairs costs a third of a bit for common weights; bounding every weight alone (by
    64, as "reduce range" does) costs a whole bit.
    """
    magnitude = np.maximum(np.abs(channels).max(axis=1), np.abs(_neighbour_sums(channels)).max(axis=1))
    scale = _scale(magnitude, steps)
    return np.rint(channels / (scale[:, None] * steps)).astype(np.int8), scale


def round_rows(table: Floats) -> tuple[Integers, Floats]:
    """Return integers and scales (..., 1) of a table of any rank, in the full range: nothing multiplies with it."""
    scale = _scale(np.abs(table).max(axis=-1, keepdims=True), 1)
    return np.rint(table / scale).astype(np.int8), scale


def _scale(magnitude: Floats, steps: int) -> Floats:
    return round_up_to_bfloat16((np.where(magnitude > 0, magnitude, 1) / (LARGEST * steps)).astype(np.float32))


def _neighbour_sums(channels: Floats) -> Floats:  # (N, K / 2)
    even = channels[:, : channels.shape[1] // 2 * 2]
    sums: Floats = even[:, 0::2] + even[:, 1::2]
    return sums if sums.size else channels


def round_up_to_bfloat16(scale: Floats) -> Floats:
    """Return the smallest bfloat16 that is not below each positive number, as float32.

    bfloat16 halves the size of scales without a loss: a scale only has to be large enough. It is rounded up before the
    integers are computed with it, which costs at most 1/128 of a step.
    """
    bits = np.ascontiguousarray(scale, np.float32).view(np.uint32)
    up: Floats = ((bits + 0xFFFF) & 0xFFFF0000).view(np.float32)
    return up


def scale_constant(graph: ir.Graph, name: str, scale: Floats) -> ir.Value:
    """Add scales, which must be representable in bfloat16, and return the value that casts them to float32."""
    bits = (np.ascontiguousarray(scale).view(np.uint32) >> 16).astype(np.uint16)
    tensor = ir.Tensor(bits, dtype=ir.DataType.BFLOAT16, name=name)
    tape = ir.tape.Tape(graph_like=None)
    floats = tape.op("Cast", [tape.initializer(tensor)], {"to": ir.DataType.FLOAT.value})
    for value in tape.initializers:
        graph.register_initializer(value)
    insert_first(graph, tape)
    return floats


@dataclass(frozen=True)
class SinusoidalTable:
    """The frequencies and phases that a sinusoidal position table is computed from.

    Column d at position p is sin(p * frequency + phase); for a cosine the phase is a quarter turn more.
    """

    frequencies: Doubles  # (D,)
    phases: Doubles  # (D,)

    def table(self, positions: int) -> Doubles:
        table: Doubles = np.sin(np.arange(positions)[:, None] * self.frequencies + self.phases)
        return table


def find_sinusoidal_table(table: Floats) -> SinusoidalTable | None:
    """Return the sinusoids that reproduce a table, or None if it is not sinusoidal.

    Frequencies and phases are estimated from the table, so any layout of sines and cosines, any longest wavelength and
    any first position will do.
    """
    if table.ndim != 2 or table.shape[0] < 3 or table.shape[1] % 2:
        return None
    for sines, cosines in _layouts(table.shape[1]):
        sinusoids = _estimate(table.astype(np.float64), sines, cosines)
        if np.abs(sinusoids.table(len(table)) - table).max() < TOLERANCE:
            return sinusoids
    return None


def compute_sinusoidal_table(graph: ir.Graph, weight: QuantizableWeight, sinusoids: SinusoidalTable) -> None:
    """Replace a table by its computation in double precision, which onnxruntime folds into a constant."""
    tape, name = ir.tape.Tape(), weight.name
    bounds = (constant(graph, f"{name}.{bound}", np.float64(bound)) for bound in (0, len(weight.array()), 1))
    column = constant(graph, f"{name}.axis", np.array([1]))
    positions = tape.op("Unsqueeze", [tape.op("Range", [*bounds]), column])  # (P, 1)
    scaled = tape.op("Mul", [positions, constant(graph, f"{name}.frequencies", sinusoids.frequencies)])
    angles = tape.op("Add", [scaled, constant(graph, f"{name}.phases", sinusoids.phases)])  # (P, D)
    tape.op("Cast", [tape.op("Sin", [angles])], {"to": ir.DataType.FLOAT.value})
    replace_constant(graph, weight.value, tape)


def _layouts(width: int) -> list[tuple[slice, slice]]:
    """Return the supported columns of sines and cosines: interleaved, or all sines before all cosines."""
    return [(slice(0, None, 2), slice(1, None, 2)), (slice(0, width // 2), slice(width // 2, None))]


def _estimate(table: Doubles, sines: slice, cosines: slice) -> SinusoidalTable:
    """Estimate frequencies from the angle between the first and the last position, and phases from the first."""
    angles = np.unwrap(np.arctan2(table[:, sines], table[:, cosines]), axis=0)  # (P, D / 2)
    frequencies, phases = np.empty(table.shape[1]), np.empty(table.shape[1])
    frequencies[sines] = frequencies[cosines] = (angles[-1] - angles[0]) / (len(table) - 1)
    phases[sines], phases[cosines] = angles[0], angles[0] + np.pi / 2
    return SinusoidalTable(frequencies, phases)
