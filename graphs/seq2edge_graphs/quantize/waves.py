"""Compute a table of sine waves when the graph is loaded instead of keeping it; needs numpy and onnx-ir.

In a sinusoidal position table, a column says sin(p * frequency + phase) at position p; for a cosine the phase is a
quarter turn more. Frequencies and phases are read off the table, so any layout of sines and cosines, any longest wave
and any first position will do; a table that they do not give back is no such table. onnxruntime folds the computation,
which is in double precision, into a constant.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from seq2edge_graphs.quantize.edit import constant, exchange
from seq2edge_graphs.quantize.parts import Floats, Part

TOLERANCE = 1e-5
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Waves:
    """A table as what gives it back."""

    frequencies: Doubles  # (D,)
    phases: Doubles  # (D,)

    def table(self, positions: int) -> Doubles:
        waves: Doubles = np.sin(np.arange(positions)[:, None] * self.frequencies + self.phases)
        return waves


def find_waves(table: Floats) -> Waves | None:
    """The waves that a table consists of, if it consists of waves."""
    if table.ndim != 2 or table.shape[0] < 3 or table.shape[1] % 2:
        return None
    for sines, cosines in _layouts(table.shape[1]):
        waves = _read(table.astype(np.float64), sines, cosines)
        if np.abs(waves.table(len(table)) - table).max() < TOLERANCE:
            return waves
    return None


def compute_waves(graph: ir.Graph, part: Part, waves: Waves) -> None:
    """Put the computation in the place of the table."""
    tape, name = ir.tape.Tape(), part.name
    ends = (constant(graph, f"{name}.{end}", np.float64(end)) for end in (0, len(part.numbers()), 1))
    column = constant(graph, f"{name}.axis", np.array([1]))
    positions = tape.op("Unsqueeze", [tape.op("Range", [*ends]), column])  # (P, 1)
    turned = tape.op("Mul", [positions, constant(graph, f"{name}.frequencies", waves.frequencies)])
    angles = tape.op("Add", [turned, constant(graph, f"{name}.phases", waves.phases)])  # (P, D)
    tape.op("Cast", [tape.op("Sin", [angles])], {"to": ir.DataType.FLOAT.value})
    exchange(graph, part.weight, tape)


def _layouts(width: int) -> list[tuple[slice, slice]]:
    """Where the sines and the cosines may be: side by side, or all sines before all cosines."""
    return [(slice(0, None, 2), slice(1, None, 2)), (slice(0, width // 2), slice(width // 2, None))]


def _read(table: Doubles, sines: slice, cosines: slice) -> Waves:
    """Frequencies from the turn between the first and the last position, phases from the first."""
    angles = np.unwrap(np.arctan2(table[:, sines], table[:, cosines]), axis=0)  # (P, D / 2)
    frequencies, phases = np.empty(table.shape[1]), np.empty(table.shape[1])
    frequencies[sines] = frequencies[cosines] = (angles[-1] - angles[0]) / (len(table) - 1)
    phases[sines], phases[cosines] = angles[0], angles[0] + np.pi / 2
    return Waves(frequencies, phases)
