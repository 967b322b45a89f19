"""Decode with a cache in buffers that onnxruntime fills in place; needs numpy and onnxruntime.

Each sentence has a slot: a row of the cross states, and K rows of the cache. Which row of the slots belongs to which
row of the search is told to the graph, which gives the logits in the order of the search. So little has to move: when a
sentence is dropped, the one in the last slot takes its place; when several beams continue one, the first of them stays
in its row, and the others are copied to rows that no beam continues.

Shapes at line ends: B sentences, K rows of each, R = B * K, S source tokens, N states, H heads, L room for tokens,
P tokens in the cache, T new ones, d numbers a head, V the vocabulary.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge import names
from seq2edge.blocks import Blocks
from seq2edge.buffers import BoundRun
from seq2edge.first_call import bias_of
from seq2edge.search import Ids, Scores
from seq2edge.words import Words

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

ROOM = 32  # tokens that a new cache has room for; when it is full, it gets twice as much


class BufferedStep:
    """Decode one step; keeps the cache, and drops the sentences that the search has dropped.

    The logits that a call gives are overwritten by the next one.
    """

    def __init__(
        self,
        decoder: "InferenceSession",
        mask: NDArray[np.bool_],
        cross: Scores,
        blocks: Blocks | None = None,
        words: Words | None = None,
    ) -> None:
        inputs = [entry.name for entry in decoder.get_inputs()]
        self.decoder = decoder
        self.blocks = blocks or Blocks()
        self.words = words
        self.mask = mask  # (B, S)
        self.cross = cross  # (N, B, H, S, d)
        self.cross_names = [name for name in inputs if names.is_cross(name)]
        self.past_names = [name for name in inputs if names.is_past(name)]
        states, batch, heads, _, width = cross.shape
        self.cache = np.empty((states, batch, heads, 0, width), np.float32)  # (N, R, H, L, d)
        self.length = 0
        self.places = np.arange(batch)[:, None]  # (B, K): the row of the cache that each row of the search has
        self.same_rows = self.places.copy()  # what a search asks for when every row goes on by itself
        self.tokens: Ids = np.empty((0, 0, 0), np.int64)
        self.positions: Ids = np.empty(0, np.int64)
        self.last = np.empty(0, np.int32)
        self.total = np.empty(1, np.int32)
        self.wanted: Ids = np.empty(0, np.int64)
        self.logits: Scores = np.empty((0, 0), np.float32)
        self.log_totals: Scores = np.empty(0, np.float32)
        self.bound: BoundRun | None = None  # to arrays of these shapes

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]:
        """What the encoder has handed over."""
        return dict(zip(self.cross_names, self.cross, strict=True))

    def __call__(self, tokens: Ids, rows: Ids) -> Scores:  # (B, K, T), (B, K) -> (B, K, V)
        if not np.array_equal(rows, self.same_rows):
            self._follow(rows)
            self.same_rows = np.arange(rows.size).reshape(rows.shape)
        new = tokens.shape[2]
        self._make_room(new)
        if self.bound is None or self.tokens.shape != tokens.shape:
            self.bound = self._bind(tokens.shape)
        self.tokens.reshape(-1, new)[self.wanted] = tokens.reshape(-1, new)
        self.positions[:] = range(self.length, self.length + new)
        self.length += new
        self.last[:], self.total[:] = self.length - 1, self.length
        self.bound()
        scores: Scores = self.logits.reshape(*rows.shape, -1)
        return scores

    def _follow(self, rows: Ids) -> None:  # (B, K)
        """Let every row go on from where the search says, and forget the sentences that it has left out."""
        before = self.places.shape[1]
        if len(rows) < len(self.places):
            kept = rows[:, 0] // before  # (B,)
            self._drop_others(kept)
            self.words = self.words and self.words.only(kept)
            rows = np.arange(len(rows))[:, None] * before + rows % before
        continued = self.places.ravel()[rows]  # (B, K)
        if rows.shape[1] == before:
            self.places = self._with_copies(continued)
            if self.bound is not None:
                self.wanted[:] = self.places.ravel()
        else:
            self._take_rows(continued)

    def _drop_others(self, kept: Ids) -> None:  # (B,)
        """Let the sentences that go on have the first slots."""
        count, per_sentence = len(kept), self.places.shape[1]
        self.places = self.places[kept]
        slots = self.places[:, 0] // per_sentence  # (B,)
        behind = np.flatnonzero(slots >= count)
        free = np.setdiff1d(np.arange(count), slots)
        self.mask[free] = self.mask[slots[behind]]
        self.cross[:, free] = self.cross[:, slots[behind]]
        moved = self.places[behind] % per_sentence + free[:, None] * per_sentence
        self._copy_rows(self.places[behind].ravel(), moved.ravel())
        self.places[behind] = moved
        self.mask, self.cross = self.mask[:count], self.cross[:, :count]
        self.cache, self.bound = self.cache[:, : count * per_sentence], None

    def _with_copies(self, continued: Ids) -> Ids:  # (B, K) -> (B, K)
        """A row for each beam: that of the one it continues, or a copy of it in a row that is free."""
        alike = continued[:, :, None] == continued[:, None, :]  # (B, K, K)
        again = alike.argmax(axis=2) < np.arange(continued.shape[1])  # (B, K): another beam was first
        if not again.any():
            return continued
        per_sentence = continued.shape[1]
        slots = continued[:, 0] // per_sentence  # (B,)
        taken = np.zeros(continued.shape, dtype=bool)  # by row of the slot
        taken[np.arange(len(slots))[:, None], continued % per_sentence] = True
        sentence, row = np.nonzero(~taken)  # as many of each sentence, and in the same order
        places = continued.copy()
        places[again] = slots[sentence] * per_sentence + row
        self._copy_rows(continued[again], places[again])
        return places

    def _copy_rows(self, source: Ids, target: Ids) -> None:
        """Rows of the cache to others that are none of them; only what is in it is copied."""
        for here, there in zip(source.tolist(), target.tolist(), strict=True):
            self.cache[:, there, :, : self.length] = self.cache[:, here, :, : self.length]

    def _take_rows(self, continued: Ids) -> None:  # (B, K)
        """A new cache with other rows for each sentence."""
        states, _, heads, room, width = self.cache.shape
        cache = self.blocks.take((states, continued.size, heads, room, width), np.float32)
        cache[:, :, :, : self.length] = self.cache[:, continued.ravel(), :, : self.length]
        self.cache, self.bound = cache, None
        self.places = np.arange(continued.size).reshape(continued.shape)

    def _make_room(self, new: int) -> None:
        states, rows, heads, room, width = self.cache.shape
        if self.length + new > room:
            room = max(ROOM, 2 * room, self.length + new)
            cache = self.blocks.take((states, rows, heads, room, width), np.float32)
            cache[:, :, :, : self.length] = self.cache[:, :, :, : self.length]
            self.cache, self.bound = cache, None

    def _bind(self, shape: tuple[int, ...]) -> BoundRun:  # (B, K, T)
        self.tokens = np.empty(shape, np.int64)
        self.positions = np.empty(shape[2], np.int64)
        self.wanted = self.places.flatten()
        self.last = np.empty(self.wanted.size, np.int32)
        if self.wanted.size > len(self.logits):
            self.logits = self.blocks.take((self.wanted.size, self._vocabulary), np.float32)
        self.logits = self.logits[: self.wanted.size]
        self.log_totals = np.empty(self.wanted.size, np.float32)
        words = {} if self.words is None else self.words.inputs(np.repeat(self.words.bias, shape[1], axis=0))
        caches = list(self.cache)
        inputs = {
            names.TARGET: self.tokens,
            names.POSITIONS: self.positions,
            names.LAST: self.last,
            names.TOTAL: self.total,
            names.WANTED: self.wanted,
            names.SOURCE_BIAS: bias_of(self.mask, shape[1] * shape[2]),
            **words,
            **self.cross_states,
            **dict(zip(self.past_names, caches, strict=True)),
        }
        present = map(names.present_of, self.past_names)
        scores = {names.LOGITS: self.logits, names.LOG_TOTALS: self.log_totals}
        return BoundRun(self.decoder, inputs, {**scores, **dict(zip(present, caches, strict=True))})

    @property
    def _vocabulary(self) -> int:
        if self.words is not None:
            return len(self.words.ids)
        return int(next(one.shape[-1] for one in self.decoder.get_outputs() if one.name == names.LOGITS))
