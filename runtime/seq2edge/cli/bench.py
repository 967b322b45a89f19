"""``seq2edge bench``: measure speed, memory and quality of bundles, also compared with other tools."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seq2edge.cli.click_options import device_options, grouped_help, signature_option

if TYPE_CHECKING:
    from seq2edge.devices.registry import DeviceConfig

COUNT = click.IntRange(min=1)
FILE = click.Path(path_type=Path)
OPTIMUM_PYTHON = ".venv-optimum/bin/python"  # created by  make optimum
GROUPS = {
    "Measurements": "batch_sizes num_beams new_tokens rounds memory threads",
    "Device": "devices provider_options strict_device require_signature",
    "Other tools": "against checkpoint optimum_python",
    "Output": "json_file plot compare guard",
}
EXAMPLES = {
    "-m BUNDLE --batch-size 1 --batch-size 16 --num-beams 1 --num-beams 4": "four combinations",
    "-m FP32 -m INT8 -i english.txt -r portuguese.txt --json run.json": "two bundles, with BLEU",
    "-m BUNDLE --against torch --checkpoint CHECKPOINT": "compared with PyTorch",
    "--compare before.json after.json": "two runs",
}


@click.command(cls=grouped_help(GROUPS, EXAMPLES))
@click.option("-m", "--model", "models", type=FILE, multiple=True, help="Bundle folder; if omitted, the default model.")
@click.option("-i", "--input", "source", type=FILE, help="Sentences, one per line; default: built-in ones.")
@click.option("-r", "--reference", type=FILE, help="Reference translations, one per line; adds BLEU.")
@click.option("--lines", type=COUNT, help="Use only the first N lines of the input.", metavar="N")
@device_options(several=True)
@click.option("--threads", type=COUNT, multiple=True, default=(1,), show_default=True, help="CPU threads.")
@click.option("--batch-size", "batch_sizes", type=COUNT, multiple=True, default=(1,), show_default=True)
@click.option("--num-beams", type=COUNT, multiple=True, default=(1,), show_default=True, help="1 is greedy search.")
@click.option("--new-tokens", type=COUNT, help="Generate exactly N tokens for every output.", metavar="N")
@click.option("--rounds", type=COUNT, default=5, show_default=True, help="How many turns each system has.")
@click.option("--memory/--no-memory", default=True, help="Measure load time and memory in separate processes.")
@click.option(
    "--against",
    metavar="PEER",
    multiple=True,
    help="Also measure this tool with the same weights: torch, ctranslate2 or optimum.",
)
@click.option("--checkpoint", type=FILE, help="Checkpoint that the bundle was made from; peers use its weights.")
@click.option(
    "--optimum-python",
    type=FILE,
    default=Path(OPTIMUM_PYTHON),
    show_default=True,
    envvar="SEQ2EDGE_OPTIMUM_PYTHON",
    help="Python of an environment with optimum-onnx.",
)
@signature_option
@click.option("--json", "json_file", type=FILE, help="Write all results to this file.")
@click.option("--plot", type=FILE, help="Draw latency and throughput (.png, .svg or .pdf).")
@click.option("--compare", type=FILE, nargs=2, metavar="BEFORE AFTER", help="Only compare two --json files.")
@click.option("--guard", is_flag=True, help="With --compare: exit with 1 if a figure became worse on the same CPU.")
def command(
    models: tuple[Path, ...],
    source: Path | None,
    reference: Path | None,
    lines: int | None,
    devices: tuple[str, ...],
    provider_options: tuple[str, ...],
    strict_device: bool,
    against: tuple[str, ...],
    checkpoint: Path | None,
    optimum_python: Path,
    json_file: Path | None,
    plot: Path | None,
    compare: tuple[Path, Path] | None,
    guard: bool,
    **settings: Any,
) -> None:
    """Measure bundles on the same sentences in turns: latency, throughput, memory, and BLEU with --reference.

    Options that can be repeated are combined with each other. Times are those of the best round, or percentiles over
    the batches of all rounds. A ratio above 1 means that the bundle is faster; its range over single rounds follows in
    parentheses.
    """
    from seq2edge.bench.plan import Peers
    from seq2edge.bench.render import describe, draw_report
    from seq2edge.bench.report import check_writable, write_report
    from seq2edge.bench.run import BenchOptions, run
    from seq2edge.bench.workload import BenchTexts
    from seq2edge.cli.progress import steps
    from seq2edge.errors import UsageError
    from seq2edge.scoring.plot import check_picture

    if compare is not None or guard:
        _show_changes(compare, guard=guard)
        return
    if plot is not None:
        check_picture(plot)
    if json_file is not None:
        check_writable(json_file)
    if lines is not None and source is None:
        raise UsageError("--lines limits the lines of a file: name one with --input")
    device_configs = _device_configs(devices, provider_options, strict=strict_device)
    texts = BenchTexts(_read(source, lines), _read(reference, lines))
    peers = Peers(names=tuple(dict.fromkeys(against)), checkpoint=checkpoint, optimum_python=optimum_python)
    with steps() as begin:
        report = run(
            BenchOptions(bundles=models, device_configs=device_configs, texts=texts, peers=peers, **settings),
            begin=begin,
        )
    click.echo(describe(report))
    if json_file is not None:
        write_report(report, json_file)
    if plot is not None:
        draw_report(report, plot)


def _device_configs(
    devices: tuple[str, ...], provider_options: tuple[str, ...], *, strict: bool
) -> "tuple[DeviceConfig, ...]":
    from seq2edge.devices.registry import DeviceConfig, parse_options
    from seq2edge.errors import UsageError

    options, names = parse_options(provider_options), tuple(dict.fromkeys(devices))
    if options and len(names) > 1:
        raise UsageError("--provider-option applies to one device: name only one with --device")
    return tuple(DeviceConfig(device=name, options=options, strict=strict) for name in names)


def _show_changes(files: tuple[Path, Path] | None, *, guard: bool) -> None:
    from seq2edge.bench.report import describe_changes, read_report, regressions
    from seq2edge.errors import UsageError

    if files is None:
        raise UsageError("--guard judges what --compare finds: give both")
    reports = read_report(files[0]), read_report(files[1])
    click.echo(describe_changes(*reports))
    if not guard:
        return
    worse = regressions(*reports)
    if worse is None:
        click.echo("the CPUs differ, so nothing is judged")
    elif worse:
        click.echo(f"{len(worse)} of them became worse")
        click.get_current_context().exit(1)


def _read(path: Path | None, lines: int | None) -> list[str] | None:
    from seq2edge.files.lines import read_lines

    return None if path is None else list(islice(read_lines(path), lines))
