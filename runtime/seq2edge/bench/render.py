"""A report as plain text with aligned columns.

Latency and throughput of a report as bars, one group a setting.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2edge.bench.report import Comparison, Measurement, Report
from seq2edge.bench.system import OURS
from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.errors import MissingExtraError
from seq2edge.scoring.plot import FORMATS, STYLE, check_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Column = tuple[str, Callable[[Measurement], str]]
NONE = "-"


def describe(report: Report) -> str:
    """The machine, the systems, and a table for each setting."""
    parts = [_machine(report), aligned(_systems(report))]
    for setting in report.settings:
        found = report.under(setting)
        parts.append(f"{setting}: {_work(found[0])}\n{aligned(_rows(found))}")
    return "\n\n".join(parts)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def ratio_text(beside: Comparison) -> str:
    ratio = beside.ratio
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
        found = [one for one in report.measurements if one.system == name]
        load = _text(min, (one.load_seconds for one in found), "{:.2f}")
        peak = _text(max, (_megabytes(one.peak_bytes) for one in found), "{:.0f}")
        rows.append([name, found[0].tool, f"{found[0].size / 1e6:.1f}", load, peak])
    return rows


def _rows(found: list[Measurement]) -> list[list[str]]:
    columns = [column for column in _columns(found) if any(column[1](one) != NONE for one in found)]
    return [[name for name, _ in columns], *([cell(one) for _, cell in columns] for one in found)]


def _columns(found: list[Measurement]) -> list[Column]:
    """Times are milliseconds of a batch, but for the best, which is a sentence's share of the best round."""
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
    for rival in dict.fromkeys(name for one in found for name in one.beside):
        columns += _beside_columns(rival)
    return columns


def _beside_columns(rival: str) -> list[Column]:
    def ratio(one: Measurement) -> str:
        return ratio_text(one.beside[rival]) if rival in one.beside else NONE

    def equal(one: Measurement) -> str:
        if one.kind != OURS or rival not in one.beside or one.beside[rival].equal is None:
            return NONE
        return f"{one.beside[rival].equal}/{one.sentences}"

    return [(f"beside {rival}", ratio), ("equal", equal)]


def _work(one: Measurement) -> str:
    forced = "" if one.new_tokens is None else f", outputs of {one.new_tokens} tokens"
    per_sentence = one.source_tokens / one.sentences
    return f"{one.sentences} sentences of {per_sentence:.1f} tokens{forced}, {len(one.rounds)} rounds"


def _text(choose: Callable[[list[float]], float], values: Iterable[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return form.format(choose(known)) if known else NONE


def _megabytes(size: int | None) -> float | None:
    return None if size is None else size / 1e6


DOTS_PER_INCH = 150
WIDTH, BAR_HEIGHT, HEAD_HEIGHT = 11.0, 0.22, 1.3  # inches
GROUP = 0.8  # share of a group's height that its bars take


def check_plot(path: Path) -> None:
    """Say before anything is measured that it could not be drawn."""
    check_picture(path)
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError("matplotlib", "plot") from None


def draw_report(report: Report, path: Path) -> None:
    """Write the picture; its format follows from the suffix."""
    check_plot(path)
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
    left.set(xlabel="milliseconds of a batch: median, and up to the 95th percentile", title="Latency")
    right.set(xlabel="target tokens a second, best round", title="Throughput")
    left.set_yticks(range(len(report.settings)), [str(setting) for setting in report.settings])
    left.invert_yaxis()
    right.legend(fontsize=8, loc="upper right", bbox_to_anchor=(1, 1))
    return figure


def _bars(axes: "Axes", report: Report, kind: str) -> None:
    names = list(dict.fromkeys(one.system for one in report.measurements))
    height = GROUP / len(names)
    for number, name in enumerate(names):
        places, values, more = [], [], []
        for place, setting in enumerate(report.settings):
            for one in report.under(setting):
                if one.system == name:
                    places.append(place + (number + 0.5) * height - GROUP / 2)
                    value, beyond = _value(one, kind)
                    values.append(value)
                    more.append(beyond)
        whiskers: dict[str, Any] = {"xerr": [[0] * len(more), more], "ecolor": "0.4"} if any(more) else {}
        axes.barh(places, values, height, label=name, **whiskers)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def _value(one: Measurement, kind: str) -> tuple[float, float]:
    if kind == "latency":
        return one.latency.p50, one.latency.p95 - one.latency.p50
    return one.tokens_per_second, 0.0
