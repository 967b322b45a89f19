"""Decode with a cache in buffers that onnxruntime fills in place.

Each sentence has a slot: a row of the cross states, and K rows of the cache. Which row of the slots belongs to which
row of the search is told to the graph, which gives the logits in the order of the search. So little has to move: when a
sentence is dropped, the one in the last slot takes its place; when several beams continue one, the first of them stays
in its row, and what is new in it is copied to rows that no beam continues.

Shapes at line ends: B sentences, K rows of each, R = B * K, S source tokens, N states, H heads, L room for tokens,
P tokens in the cache, T new ones, d numbers a head, V the vocabulary.

Which rows of the cache the beams of a sentence have, and how little must be copied when some go on from one.

The beams of a sentence come from one another, so their rows begin alike, most often up to a few tokens ago. Who
remembers how far need not copy that much.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.engine.array_pool import ArrayPool
from seq2edge.engine.decoder_inputs import RestrictedVocabulary, bias_of
from seq2edge.engine.io_binding import BoundRun
from seq2edge.search import Ids, Scores

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class RowCopy(NamedTuple):
    """Tokens from ``start`` on that a row of the cache is to have from another; what comes before is alike."""

    source: int
    target: int
    start: int


class CacheSlot:
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

    def follow(self, parents: Sequence[int], length: int) -> list[RowCopy]:
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
                copies.append(RowCopy(first + source, first + row, self.alike[source][row]))
                self._make_alike(source, row, length)
            self.rows.append(row)
        return copies

    def _make_alike(self, source: int, target: int, length: int) -> None:
        for row, common in enumerate(self.alike[source]):
            self.alike[target][row] = self.alike[row][target] = common
        self.alike[source][target] = self.alike[target][source] = length


ROOM = 32  # tokens that a new cache has room for; when it is full, it gets twice as much


class InplaceCacheState:
    """Decode one step; keeps the cache, and drops the sentences that the search has dropped.

    The logits that a call gives are overwritten by the next one.
    """

    def __init__(
        self,
        decoder: "InferenceSession",
        mask: NDArray[np.bool_],
        cross: Scores,
        blocks: ArrayPool | None = None,
        words: RestrictedVocabulary | None = None,
    ) -> None:
        inputs = [entry.name for entry in decoder.get_inputs()]
        self.decoder = decoder
        self.blocks = blocks or ArrayPool()
        self.words = words
        self.mask = mask  # (B, S)
        self.cross = cross  # (N, B, H, S, d)
        self.cross_names = [name for name in inputs if tensor_names.is_cross(name)]
        self.past_names = [name for name in inputs if tensor_names.is_past(name)]
        states, batch, heads, _, width = cross.shape
        self.cache = np.empty((states, batch, heads, 0, width), np.float32)  # (N, R, H, L, d)
        self.length = 0
        self.slots = [CacheSlot(number, size=1, length=0) for number in range(batch)]  # (B,)
        self.shape = (batch, 1)  # B and K of the last call
        self.same_rows = np.arange(
            batch, dtype=np.int64
        ).tobytes()  # what is asked for when every row goes on by itself
        self.tokens: Ids = np.empty((0, 0, 0), np.int64)
        self.tokens_by_row: Ids = np.empty((0, 0), np.int64)  # the same memory
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
        if rows.shape != self.shape or rows.tobytes() != self.same_rows:
            self._follow(rows)
        new = tokens.shape[2]
        self._make_room(new)
        if self.bound is None or self.tokens.shape != tokens.shape:
            self.bound = self._bind(tokens.shape)
        self.tokens_by_row[self.wanted] = tokens.reshape(-1, new)
        self.positions += self.length - self.positions.item(0)
        self.length += new
        self.last.fill(self.length - 1)
        self.total.fill(self.length)
        self.bound()
        scores: Scores = self.logits.reshape(*rows.shape, -1)
        return scores

    def _follow(self, rows: Ids) -> None:  # (B, K)
        """Let every row go on from where the search says, and forget the sentences that it has left out."""
        before = len(self.slots[0].rows)
        if len(rows) < len(self.slots):
            self._drop_others(rows[:, 0] // before)
        if rows.shape[1] != before:
            self._multiply_rows(rows.shape[1])
        else:
            self._copy_beams((rows % before).tolist())
        if rows.shape != self.shape:
            self.shape, self.same_rows = (
                rows.shape,
                np.arange(rows.size, dtype=np.int64).tobytes(),
            )  # faster to compare than arrays

    def _drop_others(self, kept: Ids) -> None:  # (B,)
        """Let the sentences that go on have the first slots."""
        self.words = self.words and self.words.only(kept)
        self.slots = [self.slots[sentence] for sentence in kept.tolist()]
        count, taken = len(self.slots), {slot.number for slot in self.slots}
        free = (number for number in range(count) if number not in taken)
        for slot in self.slots:
            if slot.number >= count:
                self._move(slot, next(free))
        self.mask, self.cross = self.mask[:count], self.cross[:, :count]
        self.cache, self.bound = self.cache[:, : count * len(self.slots[0].rows)], None

    def _move(self, slot: CacheSlot, number: int) -> None:
        """Take all that a sentence has to another slot."""
        size, length = len(slot.rows), self.length
        self.mask[number] = self.mask[slot.number]
        self.cross[:, number] = self.cross[:, slot.number]
        slots = self.cache.reshape(len(self.cache), -1, size, *self.cache.shape[2:])  # (N, B, K, H, L, d)
        slots[:, number, :, :, :length] = slots[:, slot.number, :, :, :length]
        slot.number = number

    def _copy_beams(self, parents: list[list[int]]) -> None:  # (B, K)
        """A row for each beam: that of the one it continues, or a copy of it in a row that is free."""
        cache, length = self.cache, self.length
        for slot, of_sentence in zip(self.slots, parents, strict=True):
            for source, target, start in slot.follow(of_sentence, length):
                cache[:, target, :, start:length] = cache[:, source, :, start:length]
        if self.bound is not None:
            self.wanted[:] = self._places

    def _multiply_rows(self, count: int) -> None:
        """A new cache with several rows for each sentence, which all continue the one that it has had."""
        states, batch, heads, room, width = self.cache.shape
        cache = self.blocks.take((states, batch * count, heads, room, width), np.float32)
        slots = cache.reshape(states, batch, count, heads, room, width)
        slots[:, :, :, :, : self.length] = self.cache[:, :, None, :, : self.length]
        self.cache, self.bound = cache, None
        self.slots = [CacheSlot(slot.number, size=count, length=self.length) for slot in self.slots]

    @property
    def _places(self) -> list[int]:  # (R,)
        """The row of the cache that each row of the search has."""
        return [place for slot in self.slots for place in slot.places]

    def _make_room(self, new: int) -> None:
        states, rows, heads, room, width = self.cache.shape
        if self.length + new > room:
            room = max(ROOM, 2 * room, self.length + new)
            cache = self.blocks.take((states, rows, heads, room, width), np.float32)
            cache[:, :, :, : self.length] = self.cache[:, :, :, : self.length]
            self.cache, self.bound = cache, None

    def _bind(self, shape: tuple[int, ...]) -> BoundRun:  # (B, K, T)
        self.tokens = np.empty(shape, np.int64)
        self.tokens_by_row = self.tokens.reshape(-1, shape[2])
        self.positions = np.arange(self.length, self.length + shape[2], dtype=np.int64)
        self.wanted = np.array(self._places, dtype=np.int64)
        self.last = np.empty(self.wanted.size, np.int32)
        if self.wanted.size > len(self.logits):
            self.logits = self.blocks.take((self.wanted.size, self._vocabulary), np.float32)
        self.logits = self.logits[: self.wanted.size]
        self.log_totals = np.empty(self.wanted.size, np.float32)
        words = {} if self.words is None else self.words.inputs(np.repeat(self.words.bias, shape[1], axis=0))
        caches = list(self.cache)
        inputs = {
            tensor_names.TARGET: self.tokens,
            tensor_names.POSITIONS: self.positions,
            tensor_names.LAST: self.last,
            tensor_names.TOTAL: self.total,
            tensor_names.WANTED: self.wanted,
            tensor_names.SOURCE_BIAS: bias_of(self.mask, shape[1] * shape[2]),
            **words,
            **self.cross_states,
            **dict(zip(self.past_names, caches, strict=True)),
        }
        present = map(tensor_names.present_of, self.past_names)
        scores = {tensor_names.LOGITS: self.logits, tensor_names.LOG_TOTALS: self.log_totals}
        return BoundRun(self.decoder, inputs, {**scores, **dict(zip(present, caches, strict=True))})

    @property
    def _vocabulary(self) -> int:
        if self.words is not None:
            return len(self.words.ids)
        return int(next(one.shape[-1] for one in self.decoder.get_outputs() if one.name == tensor_names.LOGITS))
