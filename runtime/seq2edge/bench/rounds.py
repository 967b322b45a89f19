"""Time systems in turns, A B A B, so that what the machine does meanwhile hits all of them alike; needs numpy."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from seq2edge.bench.system import System
from seq2edge.bench.work import Sources, Work, first_token_only
from seq2edge.generation import GenerationOptions

FIRST_TOKEN_BATCHES = 8  # that many batches are enough for the time to the first token


@dataclass
class Timing:
    """What one system needed for some work."""

    outputs: Sources  # in the order of the work, from the warm-up
    rounds: list[list[float]] = field(default_factory=list)  # seconds of each batch, for each round
    first: list[list[float]] = field(default_factory=list)  # the same for outputs of one token

    @property
    def round_seconds(self) -> list[float]:
        return [sum(batches) for batches in self.rounds]

    @property
    def latencies(self) -> list[float]:
        """Seconds of every batch in every round."""
        return [seconds for batches in self.rounds for seconds in batches]

    @property
    def first_latencies(self) -> list[float]:
        return [seconds for batches in self.first for seconds in batches]


def alternate(
    systems: Mapping[str, System],
    work: Mapping[str, Work],
    options: Mapping[str, GenerationOptions],
    *,
    batch_size: int,
    rounds: int,
    tick: Callable[[str], None] = lambda _: None,
) -> dict[str, Timing]:
    """One round to warm up, which also gives the outputs, then ``rounds`` in which every system has its turn."""
    timings = {}
    for name, system in systems.items():
        timings[name] = Timing(_translate_all(system, work[name], options[name], batch_size))
        tick(f"{name}, warm-up")
    for number in range(1, rounds + 1):
        for name, system in systems.items():
            gc.collect()  # what the system before has left behind is not this one's to clear
            some = work[name].batches(batch_size)
            timings[name].rounds.append(_times(system, work[name], options[name], some))
            first = first_token_only(options[name])
            timings[name].first.append(_times(system, work[name], first, some[:FIRST_TOKEN_BATCHES]))
            tick(f"{name}, round {number}")
    return timings


def _translate_all(system: System, work: Work, options: GenerationOptions, batch_size: int) -> Sources:
    outputs: Sources = [[]] * len(work.sources)
    for batch in work.batches(batch_size):
        answer = system.translate([work.sources[place] for place in batch], options)
        for place, output in zip(batch, answer.outputs, strict=True):
            outputs[place] = output
    return outputs


def _times(system: System, work: Work, options: GenerationOptions, batches: list[list[int]]) -> list[float]:
    return [system.translate([work.sources[place] for place in batch], options).seconds for batch in batches]
