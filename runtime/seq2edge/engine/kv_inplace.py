"""Decode with a KV cache in buffers that onnxruntime writes to in place.

Each sentence has a slot: a row of the cross-attention states, and K rows of the cache. The graph is told which row of
the slots belongs to which row of the search, and returns the logits in the order of the search. So little has to move:
when a sentence is dropped, the one in the last slot moves to its slot; when several beams continue one, the first keeps
its row and the others get copies in rows that no beam continues. The beams of a sentence descend from one another, so
their rows have most tokens in common, and only what differs is copied.

Shapes at line ends: B sentences, K rows of each, R = B * K, S source tokens, N states, H heads, L capacity in tokens,
T new tokens, d the width of a head, V the vocabulary size.
"""

from collections import deque
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.devices.session import BoundRun
from seq2edge.engine.array_pool import ArrayPool
from seq2edge.engine.decoder_inputs import RestrictedVocabulary, source_bias, vocabulary_size
from seq2edge.search import DecoderState, Ids, Scores, StepOutput

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


CAPACITY = 32  # tokens of a new cache; a full one is doubled
MOST_KEPT = 8 * 2**20  # bytes of idle calls


class RowCopy(NamedTuple):
    """Copy the tokens from ``start`` on from one row of the cache to another; those before are the same."""

    source: int
    target: int
    start: int


class CacheSlot:
    """The cache rows of one sentence, one per beam, all equal at first."""

    def __init__(self, number: int, *, size: int, length: int) -> None:
        self.number = number
        self.rows = list(range(size))  # the row of each beam, counted within the slot
        self.common = [[length] * size for _ in range(size)]  # the number of first tokens that two rows share

    @property
    def cache_rows(self) -> list[int]:
        """The row of each beam, counted through all slots."""
        first = self.number * len(self.rows)
        return [first + row for row in self.rows]

    def follow(self, parents: Sequence[int], length: int) -> list[RowCopy]:
        """Let each beam continue one of the previous beams, which have ``length`` tokens; return the copies it takes.

        The first beam that continues another keeps its row, the others get copies in rows that none continues.
        """
        continued = [self.rows[parent] for parent in parents]
        free = [row for row in self.rows if row not in continued]
        if not free:
            self.rows = continued
            return []
        first, self.rows, copies = self.number * len(continued), [], []
        for row in continued:
            if row in self.rows:
                source, row = row, max(free, key=self.common[row].__getitem__)
                free.remove(row)
                copies.append(RowCopy(first + source, first + row, self.common[source][row]))
                self._record_copy(source, row, length)
            self.rows.append(row)
        return copies

    def _record_copy(self, source: int, target: int, length: int) -> None:
        for row, common in enumerate(self.common[source]):
            self.common[target][row] = self.common[row][target] = common
        self.common[source][target] = self.common[target][source] = length


class BoundCall:
    """The arrays of decoder calls of one shape, which are bound to the graph; only their content changes."""

    def __init__(
        self, shape: tuple[int, ...], bias: Scores, cross: Scores, cache: Scores, logits: Scores, *, reusable: bool
    ) -> None:
        rows = len(logits)  # R
        self.reusable = reusable
        self.tokens: Ids = np.empty(shape, np.int64)  # (B, K, T)
        self.tokens_by_row = self.tokens.reshape(-1, shape[2])  # (R, T): the same memory
        self.positions: Ids = np.arange(shape[2], dtype=np.int64)  # (T,)
        self.last, self.total = np.empty(rows, np.int32), np.empty(1, np.int32)
        self.wanted: Ids = np.empty(rows, np.int64)  # (R,): the row of the cache that each row of the search has
        self.bias, self.cross, self.cache = bias, cross, cache
        self.output = StepOutput(logits.reshape(*shape[:2], -1), np.empty(rows, np.float32))
        self.run: BoundRun | None = None

    @property
    def size(self) -> int:
        return self.cross.nbytes + self.cache.nbytes + self.output.logits.nbytes


class BoundCalls:
    """Idle calls for single sentences, whose shapes come again and again; binding takes as long as a small step."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._given: deque[BoundCall] = deque()
        self._calls: list[BoundCall] = []  # the last used come last

    def give(self, call: BoundCall) -> None:
        """Keep a call whose arrays nobody uses any more; safe at any time, also while garbage is collected."""
        self._given.append(call)

    def take(self, shape: tuple[int, ...], cross: tuple[int, ...], cache: tuple[int, ...]) -> BoundCall | None:
        """Return a call with arrays of these shapes, if there is one."""
        with self._lock:
            while self._given:
                self._calls.append(self._given.popleft())
            while sum(call.size for call in self._calls) > MOST_KEPT:
                del self._calls[0]
            for index, call in enumerate(self._calls):
                if (call.tokens.shape, call.cross.shape, call.cache.shape) == (shape, cross, cache):
                    return self._calls.pop(index)
        return None


class InplaceCacheState(DecoderState):
    """A decoder state over buffers that are bound once; the logits of a call are overwritten by the next."""

    def __init__(
        self,
        decoder: "InferenceSession",
        mask: NDArray[np.bool_],
        cross: Scores,
        pool: ArrayPool | None = None,
        vocabulary: RestrictedVocabulary | None = None,
        calls: BoundCalls | None = None,
    ) -> None:
        inputs = [entry.name for entry in decoder.get_inputs()]
        self.decoder = decoder
        self.pool, self.calls = pool or ArrayPool(), calls or BoundCalls()
        self.vocabulary = vocabulary
        self.vocabulary_size = vocabulary_size(decoder) if vocabulary is None else len(vocabulary.token_ids)
        self.mask = mask  # (B, S)
        self.cross = cross  # (N, B, H, S, d)
        self.cross_names = [name for name in inputs if tensor_names.is_cross(name)]
        self.past_names = [name for name in inputs if tensor_names.is_past(name)]
        states, batch, heads, _, width = cross.shape
        self.cache = np.empty((states, batch, heads, 0, width), np.float32)  # (N, R, H, L, d)
        self.length = 0
        self.slots = [CacheSlot(number, size=1, length=0) for number in range(batch)]  # (B,)
        self.shape = (batch, 1)  # B and K of the last call
        self.same_rows = _same_rows(batch)  # the rows of a call in which every row continues itself
        self.logits: Scores = np.empty((0, 0), np.float32)
        self.bound: BoundCall | None = None  # the last call
        self.changed = True  # since the last call, so that another one has to be bound

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]:
        return dict(zip(self.cross_names, self.cross, strict=True))

    def step(self, tokens: Ids, rows: Ids) -> StepOutput:  # (B, K, T), (B, K)
        if rows.shape != self.shape or rows.tobytes() != self.same_rows:
            self._follow(rows)
        new = tokens.shape[2]
        self._reserve(new)
        bound = self.bound
        if bound is None or self.changed or bound.tokens.shape != tokens.shape:
            bound = self._bind(tokens.shape)
        bound.tokens_by_row[bound.wanted] = tokens.reshape(-1, new)
        return self._run(bound, new)

    def extend(self, tokens: list[int]) -> StepOutput:
        bound = self.bound
        if bound is None or self.changed or bound.tokens.shape[2] > 1 or self.length == self.cache.shape[3]:
            return super().extend(tokens)
        bound.tokens_by_row[bound.wanted, 0] = tokens
        return self._run(bound, 1)

    def _run(self, bound: BoundCall, new: int) -> StepOutput:
        releasing = self.length == 0 and self.shape[0] > 1  # batches have ever new shapes, and the arena keeps all
        if new == 1:
            bound.positions.fill(self.length)
        else:
            bound.positions += self.length - bound.positions.item(0)
        self.length += new
        bound.last.fill(self.length - 1)
        bound.total.fill(self.length)
        assert bound.run is not None
        bound.run(releasing=releasing)
        return bound.output

    def _follow(self, rows: Ids) -> None:  # (B, K)
        """Let every row continue the row that the search says, and drop the sentences that it has left out."""
        before = len(self.slots[0].rows)
        if len(rows) < len(self.slots):
            self._drop_others(rows[:, 0] // before)
        if rows.shape[1] != before:
            self._multiply_rows(rows.shape[1])
        elif before > 1:
            self._copy_beams((rows % before).tolist())
        if rows.shape != self.shape:
            self.shape, self.same_rows = rows.shape, _same_rows(rows.size)

    def _drop_others(self, kept: Ids) -> None:  # (B,)
        """Move the sentences that go on to the first slots."""
        self.vocabulary = self.vocabulary and self.vocabulary.only(kept)
        self.slots = [self.slots[sentence] for sentence in kept.tolist()]
        count, taken = len(self.slots), {slot.number for slot in self.slots}
        free = (number for number in range(count) if number not in taken)
        for slot in self.slots:
            if slot.number >= count:
                self._move(slot, next(free))
        self.mask, self.cross = self.mask[:count], self.cross[:, :count]
        self.cache, self.changed = self.cache[:, : count * len(self.slots[0].rows)], True

    def _move(self, slot: CacheSlot, number: int) -> None:
        """Move a sentence to another slot."""
        size, length = len(slot.rows), self.length
        self.mask[number] = self.mask[slot.number]
        self.cross[:, number] = self.cross[:, slot.number]
        slots = self.cache.reshape(len(self.cache), -1, size, *self.cache.shape[2:])  # (N, B, K, H, L, d)
        slots[:, number, :, :, :length] = slots[:, slot.number, :, :, :length]
        slot.number = number

    def _copy_beams(self, parents: list[list[int]]) -> None:  # (B, K)
        """Give each beam the row of the beam that it continues, or a copy of it in a free row."""
        cache, length = self.cache, self.length
        for slot, of_sentence in zip(self.slots, parents, strict=True):
            for source, target, start in slot.follow(of_sentence, length):
                cache[:, target, :, start:length] = cache[:, source, :, start:length]
        if self.bound is not None and not self.changed:
            self.bound.wanted[:] = self._cache_rows

    def _multiply_rows(self, count: int) -> None:
        """Give each sentence several rows, which all continue its only one."""
        states, batch, heads, capacity, width = self.cache.shape
        cache = self.pool.take((states, batch * count, heads, capacity, width), np.float32)
        slots = cache.reshape(states, batch, count, heads, capacity, width)
        slots[:, :, :, :, : self.length] = self.cache[:, :, None, :, : self.length]
        self.cache, self.changed = cache, True
        self.slots = [CacheSlot(slot.number, size=count, length=self.length) for slot in self.slots]

    @property
    def _cache_rows(self) -> list[int]:  # (R,)
        """The row of the cache that each row of the search has."""
        return [row for slot in self.slots for row in slot.cache_rows]

    def _reserve(self, new: int) -> None:
        """Make the cache large enough for new tokens."""
        states, rows, heads, capacity, width = self.cache.shape
        if self.length + new > capacity:
            capacity = max(CAPACITY, 2 * capacity, self.length + new)
            cache = self.pool.take((states, rows, heads, capacity, width), np.float32)
            cache[:, :, :, : self.length] = self.cache[:, :, :, : self.length]
            self.cache, self.changed = cache, True

    def _bind(self, shape: tuple[int, ...]) -> BoundCall:  # (B, K, T)
        """Bind a call of this shape for the sentences as they are now."""
        before, reusable = self.bound, shape[0] == 1 and self.vocabulary is None
        call = self.calls.take(shape, self.cross.shape, self.cache.shape) if reusable else None
        if call is None:
            call = self._new_call(shape, reusable=reusable)
        else:
            call.bias[:] = source_bias(self.mask, shape[1] * shape[2])
            call.cross[:] = self.cross
            call.cache[:, :, :, : self.length] = self.cache[:, :, :, : self.length]
        call.wanted[:] = self._cache_rows
        self.bound, self.cross, self.cache, self.changed = call, call.cross, call.cache, False
        if before is not None and before.reusable:
            self.calls.give(before)
        return call

    def __del__(self) -> None:
        bound = getattr(self, "bound", None)  # none if creating the state failed
        if bound is not None and bound.reusable:
            self.calls.give(bound)

    def _new_call(self, shape: tuple[int, ...], *, reusable: bool) -> BoundCall:
        """Return a new call; the arrays of a reusable one are its own."""
        rows = shape[0] * shape[1]
        if rows > len(self.logits) or reusable:
            self.logits = self.pool.take((rows, self.vocabulary_size), np.float32)
        self.logits = self.logits[:rows]
        bias = source_bias(self.mask, shape[1] * shape[2])
        cross, cache = (self.cross.copy(), self.cache.copy()) if reusable else (self.cross, self.cache)
        call = BoundCall(shape, bias, cross, cache, self.logits, reusable=reusable)
        restricted = self.vocabulary and self.vocabulary.inputs(np.repeat(self.vocabulary.bias, shape[1], axis=0))
        caches = list(cache)
        inputs = {
            tensor_names.TARGET: call.tokens,
            tensor_names.POSITIONS: call.positions,
            tensor_names.LAST: call.last,
            tensor_names.TOTAL: call.total,
            tensor_names.WANTED: call.wanted,
            tensor_names.SOURCE_BIAS: bias,
            **(restricted or {}),
            **dict(zip(self.cross_names, cross, strict=True)),
            **dict(zip(self.past_names, caches, strict=True)),
        }
        present = map(tensor_names.present_of, self.past_names)
        logits, log_totals = self.logits, call.output.log_normalizer
        assert log_totals is not None
        scores = {tensor_names.LOGITS: logits, tensor_names.LOG_TOTALS: log_totals}
        call.run = BoundRun(self.decoder, inputs, {**scores, **dict(zip(present, caches, strict=True))})
        return call


def _same_rows(count: int) -> bytes:
    """Return 0, 1, ... as bytes, which are faster to compare than arrays."""
    return np.arange(count, dtype=np.int64).tobytes()
