"""Reports with known figures for tests of tables and comparisons."""

from dataclasses import replace

from seq2edge.bench.environment import Environment
from seq2edge.bench.report import FORMAT_VERSION, Comparison, Measurement, Report, Setting, latency_of, ratio_of

MACHINE = Environment(
    cpu="a CPU",
    flags=("avx2",),
    cores=4,
    allowed_cores=2,
    memory_bytes=8_000_000_000,
    system="Linux",
    python="3.11.7",
    versions={"seq2edge": "0.1.0", "onnxruntime": "1.31.1"},
    load_average=0.5,
    time="2026-01-01T00:00:00+00:00",
)
SETTING = Setting(device="cpu", threads=1, batch_size=2, num_beams=4)
OURS = Measurement(
    system="int8",
    kind="seq2edge",
    precision="int8",
    tool="onnxruntime 1.31.1",
    size=8_000_000,
    setting=SETTING,
    work="0123456789abcdef",
    sentences=4,
    source_tokens=40,
    target_tokens=48,
    new_tokens=None,
    rounds=(0.10, 0.11, 0.104),
    latency=latency_of([0.05, 0.05, 0.06, 0.05, 0.052, 0.052]),
    first_token=latency_of([0.01, 0.01, 0.012]),
    tokens_per_second=480.0,
    load_seconds=0.25,
    peak_bytes=90_000_000,
    bleu=43.49,
    beside={},
)
THEIRS = replace(OURS, system="ctranslate2 int8", kind="ctranslate2", rounds=(0.15, 0.22, 0.13), bleu=43.5)


def report(*measurements: Measurement) -> Report:
    return Report(
        format_version=FORMAT_VERSION, machine=MACHINE, load_average_after=0.7, measurements=tuple(measurements)
    )


def side_by_side() -> Report:
    beside = Comparison(system=THEIRS.system, ratio=ratio_of(THEIRS.rounds, OURS.rounds), equal=3)
    return report(replace(OURS, beside={"ctranslate2": beside}), THEIRS)
