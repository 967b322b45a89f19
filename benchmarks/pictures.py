"""Plot the figures of the documentation from benchmarks/results."""

from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from results import Row, read

LABELS = {"CTranslate2 float32": (9, -14), "CTranslate2 int8": (15, -1), "seq2edge int8": (-6, 15)}  # points
SEQ2EDGE, PEER = "tab:blue", "tab:orange"
DOTS_PER_INCH = 130


def draw_all(results: Path, folder: Path) -> list[Path]:
    """Plot the figures for which there are results."""
    drawn = []
    for name, draw in {"precisions": draw_precisions, "versus_peers": draw_speed, "growth": draw_growth}.items():
        rows = read(name, results)
        if rows:
            drawn.append(draw(rows, folder))
    return drawn


def draw_precisions(rows: list[Row], folder: Path) -> Path:
    """Plot BLEU against size; larger dots are faster."""
    models = list(dict.fromkeys(str(one["work"]) for one in rows))
    figure = _figure(5.5 * len(models), 4)
    for number, model in enumerate(models, start=1):
        axes = figure.add_subplot(1, len(models), number)
        of_model = [one for one in rows if one["work"] == model]
        speeds = [1 / one["milliseconds"]["greedy, batch 16"] for one in of_model]
        for one, speed in zip(of_model, speeds, strict=True):
            colour = PEER if str(one["system"]).startswith("CTranslate2") else SEQ2EDGE
            axes.scatter(one["megabytes"], one["bleu"], s=60 + 240 * speed / max(speeds), color=colour, alpha=0.7)
            offset = LABELS.get(str(one["system"]), (9, 5))
            point = one["megabytes"], one["bleu"]
            axes.annotate(str(one["system"]), point, fontsize=8, textcoords="offset points", xytext=offset)
        limit = 1.35 * max(one["megabytes"] for one in of_model)
        axes.set(title=model, xlabel="megabytes", ylabel="BLEU, beam 4", xlim=(0, limit))
        axes.margins(y=0.3)
        axes.grid(alpha=0.3)
    figure.suptitle("Size and quality; the larger the dot, the faster (greedy, batch 16)", fontsize=10)
    return _saved(figure, folder / "quantization.png")


def draw_speed(rows: list[Row], folder: Path) -> Path:
    """Plot the tokens per second of every system, with a panel for each work and search."""
    panels = list(dict.fromkeys((row["work"], row["setting"]["num_beams"]) for row in rows))
    columns = 2
    figure = _figure(11, 3.2 * -(-len(panels) // columns))
    for number, (work, beams) in enumerate(panels, start=1):
        axes = figure.add_subplot(-(-len(panels) // columns), columns, number)
        chosen = [row for row in rows if row["work"] == work and row["setting"]["num_beams"] == beams]
        _speed_bars(axes, chosen)
        axes.set(title=f"{work}, {'greedy' if beams == 1 else f'beam {beams}'}", xlabel="target tokens a second")
    return _saved(figure, folder / "performance.png")


def _speed_bars(axes: Any, rows: list[Row]) -> None:
    names = [f"{_name(row)}, batch {row['setting']['batch_size']}" for row in rows]
    colours = [SEQ2EDGE if row["kind"] == "seq2edge" else PEER for row in rows]
    axes.barh(names, [row["tokens_per_second"] for row in rows], color=colours)
    axes.tick_params(axis="y", labelsize=7)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)


def draw_growth(rows: list[Row], folder: Path) -> Path:
    works = list(dict.fromkeys(row["work"] for row in rows))
    figure = _figure(4 * len(works), 3.2)
    for number, work in enumerate(works, start=1):
        axes = figure.add_subplot(1, len(works), number)
        for name in dict.fromkeys(_name(row) for row in rows):
            chosen = sorted((row for row in rows if row["work"] == work and _name(row) == name), key=_size)
            axes.plot([row["size"] for row in chosen], [1e3 * min(row["rounds"]) for row in chosen], "o-", label=name)
        axes.set(title=f"growth with {work}", xlabel=work, ylabel="milliseconds of a batch", ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    return _saved(figure, folder / "performance-growth.png")


def _size(row: Row) -> int:
    return int(row["size"])


def _name(row: Row) -> str:
    return f"seq2edge {row['precision']}" if row["kind"] == "seq2edge" else str(row["system"])


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _saved(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=DOTS_PER_INCH)
    return path
