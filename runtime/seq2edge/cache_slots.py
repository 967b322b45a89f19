"""Which rows of the cache the beams of a sentence have, and how little must be copied when some go on from one.

The beams of a sentence come from one another, so their rows begin alike, most often up to a few tokens ago. Who
remembers how far need not copy that much.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Copy(NamedTuple):
    """Tokens from ``start`` on that a row of the cache is to have from another; what comes before is alike."""

    source: int
    target: int
    start: int


class Slot:
    """The rows of one sentence, as many as it has beams, all alike when it begins."""

    def __init__(self, number: int, *, size: int, length: int) -> None:
        self.number = number
        self.rows = list(range(size))  # of each beam, counted in the slot
        self.alike = [[length] * size for _ in range(size)]  # how many first tokens two rows have in common

    @property
    def places(self) -> list[int]:
        """The row of each beam, counted through all slots."""
        first = self.number * len(self.rows)
        return [first + row for row in self.rows]

    def follow(self, parents: Sequence[int], length: int) -> list[Copy]:
        """Let each beam go on from one of the beams before, which have so many tokens.

        The first that goes on from a beam has its row, the others have copies in rows from which none goes on.
        """
        wanted = [self.rows[parent] for parent in parents]
        free = [row for row in self.rows if row not in wanted]
        if not free:
            self.rows = wanted
            return []
        first, self.rows, copies = self.number * len(wanted), [], []
        for row in wanted:
            if row in self.rows:
                source, row = row, max(free, key=self.alike[row].__getitem__)
                free.remove(row)
                copies.append(Copy(first + source, first + row, self.alike[source][row]))
                self._make_alike(source, row, length)
            self.rows.append(row)
        return copies

    def _make_alike(self, source: int, target: int, length: int) -> None:
        for row, common in enumerate(self.alike[source]):
            self.alike[target][row] = self.alike[row][target] = common
        self.alike[source][target] = self.alike[target][source] = length
