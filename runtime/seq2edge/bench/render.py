"""Show a report as a table of plain text, or as a bar chart of latency and throughput."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2edge.bench.report import Comparison, Measurement, Report
from seq2edge.bench.system import OURS
from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.scoring.plot import FORMATS, STYLE, check_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Column = tuple[str, Callable[[Measurement], str]]
NONE = "-"
DOTS_PER_INCH = 150
WIDTH, BAR_HEIGHT, HEAD_HEIGHT = 11.0, 0.22, 1.3  # inches
GROUP = 0.8  # fraction of a group's height that its bars take


def describe(report: Report) -> str:
    """Return the machine, the systems, and a table for each setting."""
    parts = [_machine(report), aligned(_systems(report))]
    for setting in report.settings:
        measurements = report.under(setting)
        parts.append(f"{setting}: {_workload(measurements[0])}\n{aligned(_rows(measurements))}")
    return "\n\n".join(parts)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Align the first column to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def ratio_text(comparison: Comparison) -> str:
    ratio = comparison.ratio
    return f"{ratio.best:.2f}x ({ratio.lowest:.2f} to {ratio.highest:.2f})"


def _machine(report: Report) -> str:
    machine = report.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    loads = " and ".join(str(load) for load in (machine.load_average, report.load_average_after) if load is not None)
    lines = [
        f"{machine.cpu}, {machine.allowed_cores} of {machine.cores} cores, {' '.join(machine.flags)}",
        f"{machine.system}, Python {machine.python}, {versions}",
    ]
    return "\n".join(lines + ([f"load average before and after: {loads}"] if loads else []))


def _systems(report: Report) -> list[list[str]]:
    rows = [["system", "runs on", "MB", "load s", "peak MB"]]
    for name in dict.fromkeys(one.system for one in report.measurements):
        group = [one for one in report.measurements if one.system == name]
        load = _text(min, (one.load_seconds for one in group), "{:.2f}")
        peak = _text(max, (_megabytes(one.peak_bytes) for one in group), "{:.0f}")
        rows.append([name, group[0].tool, f"{group[0].size / 1e6:.1f}", load, peak])
    return rows


def _rows(group: list[Measurement]) -> list[list[str]]:
    columns = [column for column in _columns(group) if any(column[1](one) != NONE for one in group)]
    return [[name for name, _ in columns], *([cell(one) for _, cell in columns] for one in group)]


def _columns(group: list[Measurement]) -> list[Column]:
    """Times are milliseconds per batch, except ms/sentence, which is the mean of the best round."""
    columns: list[Column] = [
        ("system", lambda one: one.system),
        ("ms/sentence", lambda one: f"{one.milliseconds:.2f}"),
        ("p50", lambda one: f"{one.latency.p50:.1f}"),
        ("p95", lambda one: f"{one.latency.p95:.1f}"),
        ("p99", lambda one: f"{one.latency.p99:.1f}"),
        ("first token", lambda one: f"{one.first_token.p50:.1f}"),
        ("tokens/s", lambda one: f"{one.tokens_per_second:.0f}"),
        ("peak MB", lambda one: _text(max, [_megabytes(one.peak_bytes)], "{:.0f}")),
        ("BLEU", lambda one: _text(max, [one.bleu], "{:.2f}")),
    ]
    for baseline in dict.fromkeys(name for one in group for name in one.beside):
        columns += _comparison_columns(baseline)
    return columns


def _comparison_columns(baseline: str) -> list[Column]:
    def ratio(one: Measurement) -> str:
        return ratio_text(one.beside[baseline]) if baseline in one.beside else NONE

    def equal(one: Measurement) -> str:
        if one.kind != OURS or baseline not in one.beside or one.beside[baseline].equal is None:
            return NONE
        return f"{one.beside[baseline].equal}/{one.sentences}"

    return [(f"vs {baseline}", ratio), ("equal", equal)]


def _workload(one: Measurement) -> str:
    forced = "" if one.new_tokens is None else f", outputs of {one.new_tokens} tokens"
    per_sentence = one.source_tokens / one.sentences
    return f"{one.sentences} sentences of {per_sentence:.1f} tokens{forced}, {len(one.rounds)} rounds"


def _text(choose: Callable[[list[float]], float], values: Iterable[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return form.format(choose(known)) if known else NONE


def _megabytes(size: int | None) -> float | None:
    return None if size is None else size / 1e6


def draw_report(report: Report, path: Path) -> None:
    """Draw the chart to a file whose suffix determines the format."""
    check_picture(path)
    import matplotlib

    suffix = path.suffix.lower()
    with matplotlib.rc_context(STYLE), replaced_file(path) as new:
        _figure(report).savefig(new, format=suffix[1:], dpi=DOTS_PER_INCH, metadata=FORMATS[suffix])


def _figure(report: Report) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEAD_HEIGHT + BAR_HEIGHT * len(report.measurements)), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    _bars(left, report, "latency")
    _bars(right, report, "throughput")
    left.set(xlabel="milliseconds per batch: median, and up to the 95th percentile", title="Latency")
    right.set(xlabel="target tokens per second, best round", title="Throughput")
    left.set_yticks(range(len(report.settings)), [str(setting) for setting in report.settings])
    left.invert_yaxis()
    right.legend(fontsize=8, loc="upper right", bbox_to_anchor=(1, 1))
    return figure


def _bars(axes: "Axes", report: Report, quantity: str) -> None:
    names = list(dict.fromkeys(one.system for one in report.measurements))
    height = GROUP / len(names)
    for number, name in enumerate(names):
        positions, values, errors = [], [], []
        for index, setting in enumerate(report.settings):
            for one in report.under(setting):
                if one.system == name:
                    positions.append(index + (number + 0.5) * height - GROUP / 2)
                    value, error = _value(one, quantity)
                    values.append(value)
                    errors.append(error)
        whiskers: dict[str, Any] = {"xerr": [[0] * len(errors), errors], "ecolor": "0.4"} if any(errors) else {}
        axes.barh(positions, values, height, label=name, **whiskers)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def _value(one: Measurement, quantity: str) -> tuple[float, float]:
    if quantity == "latency":
        return one.latency.p50, one.latency.p95 - one.latency.p50
    return one.tokens_per_second, 0.0
