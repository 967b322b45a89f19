"""Decode with tensors whose shapes and addresses never change, so that a device can capture each call; needs numpy.

Each sentence has a slot that it keeps: when it has ended, its rows go on idly, and nobody looks at them. The cache has
room for tokens to come; when it is full, or when each sentence gets more rows, it moves into a larger one.

Shapes at line ends: B sentences that go on of A in the batch, K rows of each, R = A * K, T new tokens, S source tokens.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2edge import names
from seq2edge.captures import Captures, Room
from seq2edge.encoding import pad_sources
from seq2edge.growing_step import source_kinds
from seq2edge.search import Ids, Scores
from seq2edge.tensors import Tensor

ROOM = 32  # tokens that a new cache has room for; when it is full, it gets twice as much
SOURCE_UNIT = 16  # source tokens are padded to a multiple, so that few shapes are to be captured


class FixedStep:
    """Decode one step; keeps the cache, and lets the sentences that the search has dropped idle."""

    def __init__(self, captures: Captures, sources: list[list[int]], *, pad: int) -> None:
        self.decoder, self.chooser, self.lock = captures.decoder, captures.chooser, captures.lock
        ids, mask = pad_sources(sources, pad)
        self.pad, self.longest = pad, ids.shape[1]
        more = ((0, 0), (0, -self.longest % SOURCE_UNIT))
        ids, mask = np.pad(ids, more, constant_values=pad), np.pad(mask, more)
        with self.lock:
            self.desk = captures.desk(self, ids, mask)
        self.slots = np.arange(len(sources))  # (B,)
        self.room: Room | None = None
        self.length, self.rows_per_sentence = 0, 1

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]:
        """What the encoder has handed over."""
        kinds, everybody = source_kinds(self.decoder), np.arange(self.desk.shape[0])
        cross = {name: states for name, states in self.desk.source.items() if names.is_cross(name)}
        with self.lock:
            found = {name: self.chooser.fetch(states, everybody, kinds[name]) for name, states in cross.items()}
        return {name: states[:, :, : self.longest] for name, states in found.items()}

    @property
    def vocabulary(self) -> int:
        return int(next(one.shape[-1] for one in self.decoder.get_outputs() if one.name == names.LOGITS))

    def __call__(self, tokens: Ids, rows: Ids) -> Scores:  # (B, K, T), (B, K) -> (B, K, V)
        with self.lock:
            logits = self._step(tokens, rows)
            wanted = self.slots[:, None] * rows.shape[1] + np.arange(rows.shape[1])  # (B, K)
            scores: Scores = self.chooser.fetch(logits, wanted.ravel(), "float").reshape(*rows.shape, -1)
        return scores

    def best(self, tokens: Ids, rows: Ids, count: int) -> tuple[Ids, Scores]:  # (B, K, T), (B, K) -> (B, K, count) each
        """The best next tokens of each row, best first, and their log-probabilities."""
        with self.lock:
            best, scores = self.chooser.choose(self._step(tokens, rows), count)  # (R, count) each
        shape = (-1, rows.shape[1], count)
        return best.reshape(shape)[self.slots], scores.reshape(shape)[self.slots]

    def _step(self, tokens: Ids, rows: Ids) -> Tensor:  # (B, K, T), (B, K) -> (R, V)
        continued = self._rows_of_slots(rows)  # (A, K)
        room, new = self.room, tokens.shape[2]
        if room is None or rows.shape[1] != room.rows or self.length + new > room.places:
            continued = self._move(continued, new)
        everybody = np.full((*continued.shape, new), self.pad)  # (A, K, T)
        everybody[self.slots] = tokens
        logits: Tensor = None
        for place in range(new):  # a prefix goes in one by one
            assert self.room is not None
            logits = self.room(everybody[:, :, place], continued, self.length)
            continued, self.length = np.arange(continued.size).reshape(continued.shape), self.length + 1
        return logits

    def _rows_of_slots(self, rows: Ids) -> Ids:  # (B, K) -> (A, K)
        """Which row of the cache each row of a slot continues; where nobody goes on, it does not matter."""
        before, shape = self.rows_per_sentence, (self.desk.shape[0], rows.shape[1])
        slots = self.slots[rows // before]  # (B, K)
        self.slots, self.rows_per_sentence = slots[:, 0], rows.shape[1]
        continued = np.broadcast_to(np.arange(shape[0])[:, None] * before, shape).copy()
        continued[self.slots] = slots * before + rows % before
        return continued

    def _move(self, continued: Ids, new: int) -> Ids:  # (A, K) -> (A, K)
        """Take a room that fits, and what is in the cache along."""
        places = ROOM if self.room is None else self.room.places
        while self.length + new > places:
            places *= 2
        before, self.room = self.room, self.desk.room(continued.shape[1], places)
        if before is None:
            return continued
        self.room.take(before, continued.ravel())
        return np.arange(continued.size).reshape(continued.shape)
