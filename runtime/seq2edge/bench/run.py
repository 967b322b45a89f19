"""The whole benchmark: every system under every setting.

Time systems in turns, A B A B, so that what the machine does meanwhile hits all of them alike.
"""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from seq2edge.bench.child_process import ChildMeasurement, measure_in_child
from seq2edge.bench.environment import describe_environment, load_average
from seq2edge.bench.plan import Peers, load_bundles, name_on, on_devices, plan_bundles, plan_peers, rivals_of
from seq2edge.bench.report import FORMAT_VERSION, Comparison, Measurement, Report, Setting, latency_of, ratio_of
from seq2edge.bench.system import System, SystemPlan, open_system
from seq2edge.bench.workload import (
    GivenTexts,
    GivenTokens,
    Sources,
    Workload,
    bleu,
    check_sacrebleu,
    first_token_only,
    search_options,
    token_count,
)
from seq2edge.bundle.bundle import Bundle
from seq2edge.config.generation import GenerationOptions
from seq2edge.config.languages import default_tags
from seq2edge.devices.registry import AUTO, DeviceConfig, device_named
from seq2edge.errors import UsageError
from seq2edge.text.tokenizer import Tokenizer, load_tokenizer

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
    work: Mapping[str, Workload],
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


def _translate_all(system: System, work: Workload, options: GenerationOptions, batch_size: int) -> Sources:
    outputs: Sources = [[]] * len(work.sources)
    for batch in work.batches(batch_size):
        answer = system.translate([work.sources[place] for place in batch], options)
        for place, output in zip(batch, answer.outputs, strict=True):
            outputs[place] = output
    return outputs


def _times(system: System, work: Workload, options: GenerationOptions, batches: list[list[int]]) -> list[float]:
    return [system.translate([work.sources[place] for place in batch], options).seconds for batch in batches]


Tick = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What to measure: all combinations."""

    bundles: tuple[Path, ...] = ()  # none: the embedded one
    device_configs: tuple[DeviceConfig, ...] = (DeviceConfig(),)
    threads: tuple[int, ...] = (1,)
    batch_sizes: tuple[int, ...] = (1,)
    num_beams: tuple[int, ...] = (1,)
    rounds: int = 5
    new_tokens: int | None = None
    memory: bool = True  # start a process for each system and setting
    texts: GivenTokens = field(default_factory=GivenTexts)
    peers: Peers = field(default_factory=Peers)
    require_signature: Path | None = None  # a public key: all bundles must be signed with its other half

    def __post_init__(self) -> None:
        for place in self.device_configs:
            if place.device == AUTO:
                raise UsageError("devices are measured by name: give --device for each, as auto is one of them")
            device_named(place.device)
        if self.peers.names and self.device_configs != (DeviceConfig(),):
            raise UsageError("peers are measured on the CPU: leave out --device, or --against")
        if self.texts.references is not None:
            check_sacrebleu()

    @property
    def searches(self) -> list[tuple[int, int]]:
        return list(product(dict.fromkeys(self.batch_sizes), dict.fromkeys(self.num_beams)))

    def ticks(self, systems: int) -> int:
        """How often a run says that something is done."""
        turns = len(self.device_configs) * len(set(self.threads)) * len(self.searches)
        return turns * systems * (1 + self.rounds + self.memory)


@dataclass(frozen=True)
class Model:
    """What the benchmark knows of the model that a system runs."""

    bundle: Bundle
    tokenizer: Tokenizer
    work: Workload

    def options(self, num_beams: int, new_tokens: int | None) -> GenerationOptions:
        manifest = self.bundle.manifest
        return search_options(
            manifest.generation, num_beams=num_beams, longest=manifest.max_positions, new_tokens=new_tokens
        )


def run(wanted: BenchOptions, *, begin: Callable[[int], Tick] = lambda _: lambda _: None) -> Report:
    """Measure all that is wanted; ``begin`` is told how many times its answer will be called."""
    machine = describe_environment()
    bundles = load_bundles(wanted.bundles, wanted.require_signature)
    models = [_model(bundle, wanted) for bundle in bundles]
    with TemporaryDirectory() as folder:
        plans = [*plan_bundles(bundles), *plan_peers(wanted.peers, bundles, Path(folder))]
        all_models = models + models[:1] * (len(plans) - len(models))
        known = {
            name_on(plan, place, wanted.device_configs): model
            for place in wanted.device_configs
            for plan, model in zip(plans, all_models, strict=True)
        }
        tick, measurements = begin(wanted.ticks(len(plans))), []
        for threads in dict.fromkeys(wanted.threads):
            measurements += _measure_with(on_devices(plans, wanted.device_configs, threads), known, wanted, tick)
    return Report(
        format_version=FORMAT_VERSION,
        machine=machine,
        load_average_after=load_average(),
        measurements=tuple(measurements),
    )


def _model(bundle: Bundle, wanted: BenchOptions) -> Model:
    manifest = bundle.manifest
    files = {name: bundle.folder / name for name in manifest.files}
    tokenizer = load_tokenizer(manifest.tokenizer, manifest.tokens, files).tagged(default_tags(manifest.languages))
    work = wanted.texts.work(tokenizer, longest=manifest.max_positions, largest_batch=max(wanted.batch_sizes))
    return Model(bundle, tokenizer, work)


def _measure_with(
    plans: list[SystemPlan], models: Mapping[str, Model], wanted: BenchOptions, tick: Tick
) -> list[Measurement]:
    found: list[Measurement] = []
    systems: dict[str, System] = {}
    try:
        for plan in plans:
            systems[plan.name] = open_system(plan)
        for batch_size, num_beams in wanted.searches:
            found += _measure_setting(plans, systems, models, wanted, batch_size, num_beams, tick)
    finally:
        for system in systems.values():
            system.close()
    return found


def _measure_setting(
    plans: list[SystemPlan],
    systems: Mapping[str, System],
    models: Mapping[str, Model],
    wanted: BenchOptions,
    batch_size: int,
    num_beams: int,
    tick: Tick,
) -> list[Measurement]:
    options = {name: models[name].options(num_beams, wanted.new_tokens) for name in systems}
    work = {name: models[name].work for name in systems}
    measured_alone = plans if wanted.memory else []
    devices = " and ".join(place.device for place in wanted.device_configs)
    alone = {one.name: _alone(one, work[one.name], options[one.name], batch_size, tick) for one in measured_alone}
    timings = alternate(systems, work, options, batch_size=batch_size, rounds=wanted.rounds, tick=tick)
    return [
        _measurement(
            plan,
            Setting(device=devices, threads=plan.threads, batch_size=batch_size, num_beams=num_beams),
            models[plan.name],
            timings[plan.name],
            alone.get(plan.name),
            wanted.new_tokens,
            _beside(plan, plans, work, timings),
        )
        for plan in plans
    ]


def _alone(
    plan: SystemPlan, work: Workload, options: GenerationOptions, batch_size: int, tick: Tick
) -> ChildMeasurement:
    batches = [[work.sources[place] for place in batch] for batch in work.batches(batch_size)]
    found = measure_in_child(plan, options, batches)
    tick(f"{plan.name}, memory")
    return found


def _beside(
    plan: SystemPlan, plans: Sequence[SystemPlan], work: Mapping[str, Workload], timings: Mapping[str, Timing]
) -> dict[str, Comparison]:
    found = {}
    for column, rival in rivals_of(plan, plans).items():
        ours, theirs = timings[plan.name], timings[rival.name]
        same_tokens = work[plan.name].sources == work[rival.name].sources
        equal = sum(one == other for one, other in zip(ours.outputs, theirs.outputs, strict=True))
        found[column] = Comparison(
            system=rival.name,
            ratio=ratio_of(theirs.round_seconds, ours.round_seconds),
            equal=equal if same_tokens else None,
        )
    return found


def _measurement(
    plan: SystemPlan,
    setting: Setting,
    model: Model,
    timing: Timing,
    alone: ChildMeasurement | None,
    new_tokens: int | None,
    beside: dict[str, Comparison],
) -> Measurement:
    work, tokens = model.work, token_count(timing.outputs)
    score = None if work.references is None else bleu(model.tokenizer.decode(timing.outputs), work.references)
    return Measurement(
        system=plan.name,
        kind=plan.kind,
        precision=plan.precision,
        tool=plan.tool,
        size=plan.size,
        setting=setting,
        work=work.signature,
        sentences=len(work.sources),
        source_tokens=work.source_tokens,
        target_tokens=tokens,
        new_tokens=new_tokens,
        rounds=tuple(timing.round_seconds),
        latency=latency_of(timing.latencies),
        first_token=latency_of(timing.first_latencies),
        tokens_per_second=tokens / min(timing.round_seconds),
        load_seconds=alone.load_seconds if alone else None,
        peak_bytes=alone.peak_bytes if alone else None,
        bleu=score,
        beside=beside,
    )
