"""Run the benchmark: every system under every setting, timed in turns.

Systems alternate round by round, A B A B, so that other load on the machine affects all of them alike.
"""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from seq2edge.bench.child_process import ChildMeasurement, measure_in_child
from seq2edge.bench.environment import describe_environment, load_average
from seq2edge.bench.plan import Peers, baselines_of, load_bundles, name_on, on_devices, plan_bundles, plan_peers
from seq2edge.bench.report import FORMAT_VERSION, Comparison, Measurement, Report, Setting, latency_of, ratio_of
from seq2edge.bench.system import System, SystemPlan, open_system
from seq2edge.bench.workload import (
    BenchTexts,
    Sources,
    Workload,
    WorkloadSource,
    bleu,
    first_token_only,
    require_sacrebleu,
    search_options,
    token_count,
)
from seq2edge.bundle.bundle import Bundle
from seq2edge.config.generation import GenerationOptions
from seq2edge.devices.registry import AUTO, DeviceConfig, device_named
from seq2edge.errors import UsageError
from seq2edge.text.tokenizer import Tokenizer, bundle_tokenizer

Tick = Callable[[str], None]
FIRST_TOKEN_BATCHES = 8  # enough batches to measure the time to the first token


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What to measure: all combinations of devices, threads, batch sizes and beams."""

    bundles: tuple[Path, ...] = ()  # none: the default one
    device_configs: tuple[DeviceConfig, ...] = (DeviceConfig(),)
    threads: tuple[int, ...] = (1,)
    batch_sizes: tuple[int, ...] = (1,)
    num_beams: tuple[int, ...] = (1,)
    rounds: int = 5
    new_tokens: int | None = None
    memory: bool = True  # start a process for each system and setting
    texts: WorkloadSource = field(default_factory=BenchTexts)
    peers: Peers = field(default_factory=Peers)
    require_signature: Path | None = None  # a public key that all bundles must be signed for

    def __post_init__(self) -> None:
        for config in self.device_configs:
            if config.device == AUTO:
                raise UsageError("the device auto cannot be measured: name devices with --device")
            device_named(config.device)
        if self.peers.names and self.device_configs != (DeviceConfig(),):
            raise UsageError("peers are measured on the CPU: leave out --device, or --against")
        if self.texts.references is not None:
            require_sacrebleu()

    @property
    def searches(self) -> list[tuple[int, int]]:
        return list(product(dict.fromkeys(self.batch_sizes), dict.fromkeys(self.num_beams)))

    def ticks(self, systems: int) -> int:
        """Return how many steps a run reports."""
        turns = len(self.device_configs) * len(set(self.threads)) * len(self.searches)
        return turns * systems * (1 + self.rounds + self.memory)


@dataclass(frozen=True)
class Model:
    """The model that a system runs, and its workload."""

    bundle: Bundle
    tokenizer: Tokenizer
    work: Workload

    def options(self, num_beams: int, new_tokens: int | None) -> GenerationOptions:
        manifest = self.bundle.manifest
        return search_options(
            manifest.generation, num_beams=num_beams, longest=manifest.max_positions, new_tokens=new_tokens
        )


@dataclass
class Timing:
    """What one system measured on a workload."""

    outputs: Sources  # in the order of the workload, from the warm-up
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


def run(bench: BenchOptions, *, begin: Callable[[int], Tick] = lambda _: lambda _: None) -> Report:
    """Measure everything; ``begin`` gets the number of steps and returns a function that is called after each."""
    machine = describe_environment()
    bundles = load_bundles(bench.bundles, bench.require_signature)
    bundle_models = [_model(bundle, bench) for bundle in bundles]
    with TemporaryDirectory() as folder:
        plans = [*plan_bundles(bundles), *plan_peers(bench.peers, bundles, Path(folder))]
        plan_models = bundle_models + bundle_models[:1] * (len(plans) - len(bundle_models))
        models = {
            name_on(plan, config, bench.device_configs): model
            for config in bench.device_configs
            for plan, model in zip(plans, plan_models, strict=True)
        }
        tick, measurements = begin(bench.ticks(len(plans))), []
        for threads in dict.fromkeys(bench.threads):
            measurements += _measure_with(on_devices(plans, bench.device_configs, threads), models, bench, tick)
    return Report(
        format_version=FORMAT_VERSION,
        machine=machine,
        load_average_after=load_average(),
        measurements=tuple(measurements),
    )


def alternate(
    systems: Mapping[str, System],
    work: Mapping[str, Workload],
    options: Mapping[str, GenerationOptions],
    *,
    batch_size: int,
    rounds: int,
    tick: Tick = lambda _: None,
) -> dict[str, Timing]:
    """Time all systems: a warm-up, which also returns the outputs, then ``rounds`` in which every system has a turn."""
    timings = {}
    for name, system in systems.items():
        timings[name] = Timing(_translate_all(system, work[name], options[name], batch_size))
        tick(f"{name}, warm-up")
    for number in range(1, rounds + 1):
        for name, system in systems.items():
            gc.collect()  # so that garbage of the previous system is not collected in this turn
            batches = work[name].batches(batch_size)
            timings[name].rounds.append(_times(system, work[name], options[name], batches))
            first = first_token_only(options[name])
            timings[name].first.append(_times(system, work[name], first, batches[:FIRST_TOKEN_BATCHES]))
            tick(f"{name}, round {number}")
    return timings


def _translate_all(system: System, work: Workload, options: GenerationOptions, batch_size: int) -> Sources:
    outputs: Sources = [[]] * len(work.sources)
    for batch in work.batches(batch_size):
        translated = system.translate([work.sources[index] for index in batch], options)
        for index, output in zip(batch, translated.outputs, strict=True):
            outputs[index] = output
    return outputs


def _times(system: System, work: Workload, options: GenerationOptions, batches: list[list[int]]) -> list[float]:
    return [system.translate([work.sources[index] for index in batch], options).seconds for batch in batches]


def _model(bundle: Bundle, bench: BenchOptions) -> Model:
    manifest = bundle.manifest
    tokenizer = bundle_tokenizer(bundle)
    work = bench.texts.work(tokenizer, longest=manifest.max_positions, largest_batch=max(bench.batch_sizes))
    return Model(bundle, tokenizer, work)


def _measure_with(
    plans: list[SystemPlan], models: Mapping[str, Model], bench: BenchOptions, tick: Tick
) -> list[Measurement]:
    measurements: list[Measurement] = []
    systems: dict[str, System] = {}
    try:
        for plan in plans:
            systems[plan.name] = open_system(plan)
        for batch_size, num_beams in bench.searches:
            measurements += _measure_setting(plans, systems, models, bench, batch_size, num_beams, tick)
    finally:
        for system in systems.values():
            system.close()
    return measurements


def _measure_setting(
    plans: list[SystemPlan],
    systems: Mapping[str, System],
    models: Mapping[str, Model],
    bench: BenchOptions,
    batch_size: int,
    num_beams: int,
    tick: Tick,
) -> list[Measurement]:
    options = {name: models[name].options(num_beams, bench.new_tokens) for name in systems}
    work = {name: models[name].work for name in systems}
    measured_alone = plans if bench.memory else []
    devices = " and ".join(config.device for config in bench.device_configs)
    alone = {plan.name: _alone(plan, work[plan.name], options[plan.name], batch_size, tick) for plan in measured_alone}
    timings = alternate(systems, work, options, batch_size=batch_size, rounds=bench.rounds, tick=tick)
    return [
        _measurement(
            plan,
            Setting(device=devices, threads=plan.threads, batch_size=batch_size, num_beams=num_beams),
            models[plan.name],
            timings[plan.name],
            alone.get(plan.name),
            bench.new_tokens,
            _comparisons(plan, plans, work, timings),
        )
        for plan in plans
    ]


def _alone(
    plan: SystemPlan, work: Workload, options: GenerationOptions, batch_size: int, tick: Tick
) -> ChildMeasurement:
    batches = [[work.sources[index] for index in batch] for batch in work.batches(batch_size)]
    measurement = measure_in_child(plan, options, batches)
    tick(f"{plan.name}, memory")
    return measurement


def _comparisons(
    plan: SystemPlan, plans: Sequence[SystemPlan], work: Mapping[str, Workload], timings: Mapping[str, Timing]
) -> dict[str, Comparison]:
    comparisons = {}
    for column, baseline in baselines_of(plan, plans).items():
        ours, theirs = timings[plan.name], timings[baseline.name]
        same_tokens = work[plan.name].sources == work[baseline.name].sources
        equal = sum(one == other for one, other in zip(ours.outputs, theirs.outputs, strict=True))
        comparisons[column] = Comparison(
            system=baseline.name,
            ratio=ratio_of(theirs.round_seconds, ours.round_seconds),
            equal=equal if same_tokens else None,
        )
    return comparisons


def _measurement(
    plan: SystemPlan,
    setting: Setting,
    model: Model,
    timing: Timing,
    alone: ChildMeasurement | None,
    new_tokens: int | None,
    comparisons: dict[str, Comparison],
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
        beside=comparisons,
    )
