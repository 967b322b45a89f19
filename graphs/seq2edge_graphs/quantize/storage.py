"""Keep weights in fewer bits that are widened again when the graph is loaded.

The graph computes in float32 all the same: onnxruntime folds the widening into a constant. It is how float16 runs where
the provider has no float16 arithmetic, as on CPUs, and how tables are kept that nothing multiplies with.

Keep scales as bfloat16, half their size, without loss.

A scale only has to be large enough. It is rounded up before the integers are chosen for it, so they make up for the
difference, which is at most 1/128 of a step's length. The graph widens the scales when it is loaded.

Round weights to 8-bit integers, one scale an output channel, so that no CPU saturates.

Activations are unsigned bytes a from 0 to 255, weights signed bytes w. CPUs without VNNI (SSE 4.1, AVX2, first AVX-512)
multiply them with an instruction, ``pmaddubsw``, that adds two neighbouring products into 16 bits and saturates:
a1 * w1 + a2 * w2 must stay within ±32,767, or such a CPU gives another result than a newer one. It lies between 255
times the sum of the negative weights and 255 times the sum of the positive ones, so its magnitude is at most 255 times
the largest of |w1|, |w2| and |w1 + w2|. Here the scale is chosen so that all three are at most 127 before they are
rounded and 128 afterwards: 255 * 128 = 32,640.

The neighbours are inner places 0 and 1, 2 and 3 and so on: onnxruntime's kernels take the inner axis in its order, four
places at a time. Bounding pairs costs a third of a bit for common weights, where bounding every weight alone (by 64, as
"reduce range" does) costs a whole one.

Compute a table of sine waves when the graph is loaded instead of keeping it.

In a sinusoidal position table, a column says sin(p * frequency + phase) at position p; for a cosine the phase is a
quarter turn more. Frequencies and phases are read off the table, so any layout of sines and cosines, any longest wave
and any first position will do; a table that they do not give back is no such table. onnxruntime folds the computation,
which is in double precision, into a constant.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from seq2edge_graphs.passes.graph_edit import constant, insert_first, replace_constant
from seq2edge_graphs.quantize.weights import Floats, QuantizableWeight


def round_up_to_bfloat16(scale: Floats) -> Floats:
    """The smallest bfloat16 that is not below each of some numbers above 0, as float32."""
    bits = np.ascontiguousarray(scale, np.float32).view(np.uint32)
    up: Floats = ((bits + 0xFFFF) & 0xFFFF0000).view(np.float32)
    return up


def scale_constant(graph: ir.Graph, name: str, scale: Floats) -> ir.Value:
    """What gives the scales; they must be bfloat16 already."""
    bits = (np.ascontiguousarray(scale).view(np.uint32) >> 16).astype(np.uint16)
    tensor = ir.Tensor(bits, dtype=ir.DataType.BFLOAT16, name=name)
    tape = ir.tape.Tape(graph_like=None)
    wide = tape.op("Cast", [tape.initializer(tensor)], {"to": ir.DataType.FLOAT.value})
    for value in tape.initializers:
        graph.register_initializer(value)
    insert_first(graph, tape)
    return wide


Integers = NDArray[np.int8]

LARGEST = 127


def round_channels(channels: Floats, *, steps: int = 1) -> tuple[Integers, Floats]:  # (N, K)
    """Integers (N, K) and scales (N,): a channel is about its integers times its scale times ``steps``.

    The scales are those of products with activations that count in so many steps.
    """
    magnitude = np.maximum(np.abs(channels).max(axis=1), np.abs(_neighbours(channels)).max(axis=1))
    scale = _scale(magnitude, steps)
    return np.rint(channels / (scale[:, None] * steps)).astype(np.int8), scale


def round_rows(table: Floats) -> tuple[Integers, Floats]:
    """The same for a table that nothing multiplies with: the full range, and any number of axes; scales (..., 1)."""
    scale = _scale(np.abs(table).max(axis=-1, keepdims=True), 1)
    return np.rint(table / scale).astype(np.int8), scale


def _scale(magnitude: Floats, steps: int) -> Floats:
    return round_up_to_bfloat16((np.where(magnitude > 0, magnitude, 1) / (LARGEST * steps)).astype(np.float32))


def _neighbours(channels: Floats) -> Floats:  # (N, K / 2)
    """Sums of the pairs that an instruction adds before it can saturate."""
    even = channels[:, : channels.shape[1] // 2 * 2]
    sums: Floats = even[:, 0::2] + even[:, 1::2]
    return sums if sums.size else channels


def store_fp16(graph: ir.Graph, part: QuantizableWeight) -> None:
    """Keep it as float16."""
    tape = ir.tape.Tape()
    narrow = constant(graph, f"{part.name}.fp16", part.numbers().astype(np.float16))
    tape.op("Cast", [narrow], {"to": ir.DataType.FLOAT.value})
    replace_constant(graph, part.weight, tape)


def store_int8(graph: ir.Graph, part: QuantizableWeight) -> None:
    """Keep it as 8-bit integers with one scale a row."""
    integers, scale = round_rows(part.numbers())
    tape = ir.tape.Tape()
    wide = tape.op("Cast", [constant(graph, f"{part.name}.int8", integers)], {"to": ir.DataType.FLOAT.value})
    tape.op("Mul", [wide, constant(graph, f"{part.name}.scale", scale)])
    replace_constant(graph, part.weight, tape)


TOLERANCE = 1e-5
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class SinusoidalTable:
    """A table as what gives it back."""

    frequencies: Doubles  # (D,)
    phases: Doubles  # (D,)

    def table(self, positions: int) -> Doubles:
        waves: Doubles = np.sin(np.arange(positions)[:, None] * self.frequencies + self.phases)
        return waves


def find_sinusoidal_table(table: Floats) -> SinusoidalTable | None:
    """The waves that a table consists of, if it consists of waves."""
    if table.ndim != 2 or table.shape[0] < 3 or table.shape[1] % 2:
        return None
    for sines, cosines in _layouts(table.shape[1]):
        waves = _read(table.astype(np.float64), sines, cosines)
        if np.abs(waves.table(len(table)) - table).max() < TOLERANCE:
            return waves
    return None


def compute_sinusoidal_table(graph: ir.Graph, part: QuantizableWeight, waves: SinusoidalTable) -> None:
    """Put the computation in the place of the table."""
    tape, name = ir.tape.Tape(), part.name
    ends = (constant(graph, f"{name}.{end}", np.float64(end)) for end in (0, len(part.numbers()), 1))
    column = constant(graph, f"{name}.axis", np.array([1]))
    positions = tape.op("Unsqueeze", [tape.op("Range", [*ends]), column])  # (P, 1)
    turned = tape.op("Mul", [positions, constant(graph, f"{name}.frequencies", waves.frequencies)])
    angles = tape.op("Add", [turned, constant(graph, f"{name}.phases", waves.phases)])  # (P, D)
    tape.op("Cast", [tape.op("Sin", [angles])], {"to": ir.DataType.FLOAT.value})
    replace_constant(graph, part.weight, tape)


def _layouts(width: int) -> list[tuple[slice, slice]]:
    """Where the sines and the cosines may be: side by side, or all sines before all cosines."""
    return [(slice(0, None, 2), slice(1, None, 2)), (slice(0, width // 2), slice(width // 2, None))]


def _read(table: Doubles, sines: slice, cosines: slice) -> SinusoidalTable:
    """Frequencies from the turn between the first and the last position, phases from the first."""
    angles = np.unwrap(np.arctan2(table[:, sines], table[:, cosines]), axis=0)  # (P, D / 2)
    frequencies, phases = np.empty(table.shape[1]), np.empty(table.shape[1])
    frequencies[sines] = frequencies[cosines] = (angles[-1] - angles[0]) / (len(table) - 1)
    phases[sines], phases[cosines] = angles[0], angles[0] + np.pi / 2
    return SinusoidalTable(frequencies, phases)
