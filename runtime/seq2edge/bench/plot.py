"""Latency and throughput of a report as bars, one group a setting; needs matplotlib."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2edge.attention_plot import FORMATS, STYLE, check_picture
from seq2edge.bench.record import Measurement, Report
from seq2edge.errors import MissingExtraError
from seq2edge.files import replaced_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
