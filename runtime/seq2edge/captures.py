"""Tensors of fixed shapes at fixed addresses, so that a device can capture a decoder's calls; needs onnxruntime.

A device that captures a call records what is done with which memory, and does that again without asking anybody: only
the numbers in the memory change. So the tensors of a shape are made once, bound once and kept:

- A desk has the mask and the cross states of so many sentences with so many source tokens. One step at a time has it.
- A room of a desk is for so many rows of a sentence and so many places: tokens, rows, place, logits, and the cache
  twice. A call reads one and writes the other, so each room has two captures, one a direction.

The first call of a room is not captured, and makes its tensors.

What a captured call computes on the way is in memory that onnxruntime may give to others when the call is over, and a
replay writes there again. So whatever is to last must have been there before the capture: when a tensor is made that
lasts, all captures are out of date, and are made anew when their turn comes. And while a step uses the device, no other
may: it would find its numbers overwritten.
"""

from collections.abc import Mapping
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from seq2edge import device_graphs as files
from seq2edge import names
from seq2edge.choosing import Chooser
from seq2edge.devices import HOST, Place
from seq2edge.first_call import empty_past
from seq2edge.search import Ids
from seq2edge.sessions import open_session, run_bound
from seq2edge.tensors import Array, Tensor, bound, fill, kept, kind_of, run_into, run_where_they_are

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, IOBinding, OrtValue, RunOptions

    Values = dict[str, OrtValue]

MOST_CAPTURES = 1000  # a provider may keep what it has recorded; further calls are not captured
MOST_IDLE = 4  # desks that nobody has; they keep their memory
GRAPH_ID, NO_CAPTURE = "gpu_graph_id", -1  # onnxruntime's names, of all its providers


class Captures:
    """A decoder of fixed shapes, and the desks that are there for it."""

    def __init__(
        self, encoder: "InferenceSession", decoder: "InferenceSession", chooser: Chooser, place: Place, *, threads: int
    ) -> None:
        self.encoder, self.decoder, self.chooser, self.memory = encoder, decoder, chooser, chooser.memory
        self.past_kinds = {one.name: kind_of(one) for one in decoder.get_inputs() if names.is_past(one.name)}
        self.widening = {
            kind: open_session(files.widening(kind), threads=threads, place=place)
            for kind in sorted(set(self.past_kinds.values()))
        }
        self.lock = RLock()  # for all that a step does on the device
        self.age = 0  # how often tensors have been made that last
        self._numbers = count(1)
        self._desks: list[Desk] = []  # the last taken comes last

    def desk(self, owner: object, sources: Ids, mask: Array) -> "Desk":  # (B, S), (B, S)
        """A desk that nobody has, with these sentences on it; it is the owner's as long as that is there."""
        idle = [desk for desk in self._desks if desk.is_free]
        desk = next((one for one in idle if one.shape == sources.shape), None) or Desk(self, sources.shape)
        for one in (desk, *idle[: max(0, len(idle) - MOST_IDLE)]):
            if one in self._desks:
                self._desks.remove(one)
        self._desks.append(desk)
        desk.owner = ref(owner)
        desk.put(sources, mask)
        return desk

    def lasting(self, array: Array, kind: str) -> "OrtValue":
        """A tensor of the device with these numbers."""
        self.age += 1
        return kept(self.chooser.select(array, np.arange(len(array)), kind))

    def next_number(self) -> int:
        """What onnxruntime is to know a new capture by."""
        number = next(self._numbers)
        return number if number <= MOST_CAPTURES else NO_CAPTURE


class Desk:
    """What the sentences of a batch say, for one step at a time."""

    def __init__(self, captures: Captures, shape: tuple[int, ...]) -> None:
        self.all, self.shape = captures, shape  # (B, S)
        self.owner: ref[object] | None = None
        self.source: Values = {}
        self.rooms: dict[tuple[int, int], Room] = {}

    @property
    def is_free(self) -> bool:
        return self.owner is None or self.owner() is None

    def put(self, sources: Ids, mask: Array) -> None:  # (B, S), (B, S)
        """Encode sentences, with what comes of it in the memory of the desk."""
        given = {names.SOURCE: sources, names.SOURCE_MASK: mask}
        if self.source:
            fill(self.source[names.SOURCE_MASK], mask)
            outputs = {name: value for name, value in self.source.items() if name != names.SOURCE_MASK}
            run_into(self.all.encoder, given, outputs)
            return
        cross = run_where_they_are(self.all.encoder, given, memory=self.all.memory)
        self.source = {name: kept(states) for name, states in cross.items()}
        self.source[names.SOURCE_MASK] = self.all.lasting(mask, "bool")

    def room(self, rows: int, places: int) -> "Room":
        """A room for so many rows of a sentence and places, with anything in its cache."""
        room = self.rooms.get((rows, places))
        if room is None:
            empty = empty_past(self.all.decoder, rows=self.shape[0] * rows, room=places)
            cache = {name: self.all.lasting(states, self.all.past_kinds[name]) for name, states in empty.items()}
            room = self.rooms[rows, places] = Room(self, rows, places, cache)
        room.turn = 0
        return room


class Room:
    """The tensors of one shape; a call continues what is in the cache."""

    def __init__(self, desk: Desk, rows: int, places: int, cache: "Values") -> None:
        self.all, self.source, self.rows, self.places = desk.all, desk.source, rows, places
        shape = desk.shape[0], rows
        self.inputs = {
            names.TARGET: self.all.lasting(np.zeros(shape, np.int64), "int64"),
            names.ROWS: self.all.lasting(np.zeros(shape, np.int64), "int64"),
            names.PLACE: self.all.lasting(np.zeros(1, np.int64), "int64"),
            names.PLACES: self.all.lasting(np.arange(places), "int64"),
        }
        self.caches: list[Values] = [cache]
        self.logits: OrtValue | None = None
        self.calls: list[IOBinding] = []  # a direction each
        self.numbers = [NO_CAPTURE, NO_CAPTURE]  # of their captures
        self.age = -1  # of the captures
        self.turn = 0  # which cache is read next

    def __call__(self, tokens: Ids, rows: Ids, place: int) -> Tensor:  # (B, K), (B, K) -> (R, V)
        for name, array in ((names.TARGET, tokens), (names.ROWS, rows), (names.PLACE, np.array([place]))):
            fill(self.inputs[name], array)
        if self.calls:
            self._forget_old_captures()
            run_bound(self.all.decoder, self.calls[self.turn], _options(self.numbers[self.turn]))
        else:
            self._first_call()
        self.turn = 1 - self.turn
        assert self.logits is not None
        return self.logits.numpy() if self.all.memory == HOST else self.logits

    def take(self, other: "Room", rows: Ids) -> None:  # (R,)
        """Continue these rows of another room."""
        for name, states in other.caches[other.turn].items():
            room = np.zeros(8, np.int64)  # of four axes, before and behind
            room[6] = self.places - other.places
            given = {files.STATES: states, files.ROWS: rows, files.ROOM: room}
            run_into(self.all.widening[self.all.past_kinds[name]], given, {files.SELECTED: self.caches[0][name]})

    def _first_call(self) -> None:
        """Let the device make what a call gives, and bind that for all others."""
        decoder = self.all.decoder
        outputs = [output.name for output in decoder.get_outputs()]
        binding = bound(decoder, {**self.inputs, **self.source, **self.caches[0]})
        for name in outputs:
            binding.bind_output(name, self.all.memory)
        run_bound(decoder, binding, _options(NO_CAPTURE))
        found = dict(zip(outputs, binding.get_outputs(), strict=True))
        self.logits = found[names.LOGITS]
        self.caches.append({name: found[names.present_of(name)] for name in self.caches[0]})
        self.all.age += 1
        there, back = self.caches
        self.calls = [self._bound(there, back), self._bound(back, there)]

    def _forget_old_captures(self) -> None:
        """Capture anew if anything has been made since that lasts."""
        if self.age == self.all.age:
            return
        for number in self.numbers:
            if number != NO_CAPTURE and hasattr(self.all.decoder, "release_captured_graph"):
                self.all.decoder.release_captured_graph(number)
        self.numbers, self.age = [self.all.next_number(), self.all.next_number()], self.all.age

    def _bound(self, read: Mapping[str, Any], written: Mapping[str, Any]) -> "IOBinding":
        present = {names.present_of(name): value for name, value in written.items()}
        given = {**self.inputs, **self.source, **read}
        return bound(self.all.decoder, given, {names.LOGITS: self.logits, **present})


def _options(number: int) -> "RunOptions":
    from onnxruntime import RunOptions

    options = RunOptions()
    options.add_run_config_entry(GRAPH_ID, str(number))
    return options
