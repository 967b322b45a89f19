"""A picture of cross-attention: which source token each target token looked at.

Installed fonts that together can draw text in any script.
"""

import math
import os
import textwrap
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.errors import DataError, MissingExtraError, UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

FIRST = "DejaVu Sans"  # comes with matplotlib
# Fonts that come with matplotlib for formulas, where codes do not mean what Unicode says, and boxes for everything.
NOT_FOR_TEXT = ("Last Resort", "STIXNon", "STIXSize", "DejaVu Sans Display", "DejaVu Serif Display", "cm")
REGULAR = 400

# Scripts whose font is not named as their letters are; the Chinese, Japanese and Korean ones share one.
NOTO = {"CJK": "CJK", "HIRAGANA": "CJK", "KATAKANA": "CJK", "HANGUL": "CJK", "NKO": "NKo"}


def choose_fonts(text: str) -> tuple[list[str], list[str]]:
    """Font families to try one after the other, and the characters that no installed font has."""
    families, missing = [FIRST], frozenset(text) - _of_family(FIRST, frozenset(text))
    held = {name: _of_family(name, missing) for name in _promising(missing)} if missing else {}
    while best := max(held, key=lambda name: (len(held[name] & missing), _liking(name)), default=""):
        if not held[best] & missing:
            break
        families.append(best)
        missing -= held.pop(best)
    return families, sorted(missing)


def font_advice(missing: Iterable[str]) -> str:
    """One sentence that says which characters no font has, and what to install."""
    letters = list(missing)
    wanted = sorted({f"Noto Sans {_script(letter)}".strip() for letter in letters})
    return f"no installed font has {' '.join(letters)}: install one such as {' and '.join(wanted)}"


def _script(letter: str) -> str:
    """The script as fonts are named after it: what Unicode's name of the letter begins with."""
    words = unicodedata.name(letter, "").split()
    if words and words[0] in NOTO:
        return NOTO[words[0]]
    ends = [words.index(word) for word in ("LETTER", "SYLLABLE", "VOWEL", "SIGN", "DIGIT") if word in words]
    return " ".join(words[: min(ends)]).title() if ends else ""


def _promising(missing: frozenset[str]) -> list[str]:
    """Families whose most regular font has some of the characters."""
    from matplotlib.font_manager import fontManager, weight_dict

    best: dict[str, tuple[tuple[bool, int], str, int]] = {}
    for entry in fontManager.ttflist:
        weight = entry.weight if isinstance(entry.weight, int) else weight_dict.get(entry.weight, REGULAR)
        oddness = (entry.style != "normal", abs(weight - REGULAR))
        if entry.name not in best or oddness < best[entry.name][0]:
            best[entry.name] = (oddness, entry.fname, getattr(entry, "index", 0))
    fonts = ((name, path, face) for name, (_, path, face) in best.items() if not name.startswith(NOT_FOR_TEXT))
    return [name for name, path, face in fonts if _of_file(path, face, missing)]


def _liking(name: str) -> tuple[bool, bool, bool, str]:
    """Which of two fonts with the same characters goes better with the others."""
    return ("Sans" in name, "Mono" not in name, name.startswith("Noto"), name)


def _of_family(name: str, wanted: frozenset[str]) -> frozenset[str]:
    """Those characters that the font has which matplotlib takes for a family."""
    from matplotlib.font_manager import FontProperties, fontManager

    path = fontManager.findfont(FontProperties(family=[name]))
    return _of_file(str(path), getattr(path, "face_index", 0), wanted)


@lru_cache(maxsize=4096)  # pictures of one sentence ask for the same again and again
def _of_file(path: str, face: int, wanted: frozenset[str]) -> frozenset[str]:
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path, face_index=face) if face else FT2Font(path)  # matplotlib 3.10 knows first faces only
    except (OSError, RuntimeError):  # a font that is gone or broken has nothing
        return frozenset()
    return frozenset(letter for letter in wanted if font.get_char_index(ord(letter)))


Weights = NDArray[np.floating[Any]]

# The formats, each with what keeps the time of writing out of the file, so that equal pictures are equal files.
FORMATS: dict[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
STYLE: Any = {  # matplotlib's type names all its settings
    "text.usetex": False,
    "text.parse_math": False,  # a dollar is a dollar
    "svg.fonttype": "none",  # text stays text, so that a browser shows any script
    "svg.hashsalt": "seq2edge",
    "pdf.fonttype": 3,  # the other way loses the letters of fonts with PostScript outlines, as Chinese ones often are
}
COLOURS = "viridis"  # perceptually uniform, and safe for people who are colour blind
DOTS_PER_INCH = 150

# Inches.
LARGEST_CELL, SMALLEST_CELL, LINED_CELL, USUAL_MAP, LARGEST_MAP = 0.45, 0.15, 0.2, 9.0, 40.0
BAR_WIDTH, BAR_GAP, BAR_LEAST_HEIGHT, MARGIN = 0.14, 0.18, 1.2, 0.15

POINTS = 72  # in an inch
LARGEST_TEXT, TEXT_IN_CELL, LINE_HEIGHT = 11.0, 0.75, 1.25  # points; share of a cell; share of the text's size
SLANT = 45  # degrees
TITLE_TEXT, TITLE_LETTERS_PER_INCH, TITLE_LEAST_LETTERS = 12, 11, 40
RIGHT_TO_LEFT = "\u200f"
JOINERS = "\u200c\u200d"  # seen only in the shape of the letters beside them


def draw_attention(
    weights: Weights,  # (target, source)
    source_labels: Sequence[str],
    target_labels: Sequence[str],
    path: Path,
    *,
    title: str = "",
) -> list[str]:
    """Draw a heat map with the source on top and the target on the left; give the characters that no font has.

    The format follows from the suffix: .png, .svg or .pdf. A character that no installed font has is drawn as its
    code, <U+4F60>, in .png and .pdf; in .svg it stays text, because there the reader's fonts count.
    ``font_advice`` says what to install. Scripts whose letters join or run from right to left look as
    they should with matplotlib 3.11 and later; earlier ones put separate letters from left to right, except in .svg.
    """
    check_picture(path)
    suffix = path.suffix.lower()
    weights = np.asarray(weights, np.float64)  # matplotlib does not draw every kind of float
    _check(weights, len(target_labels), len(source_labels))
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise MissingExtraError("matplotlib", "plot") from None

    texts = [_visible(text) for text in (" ".join(title.split()), *source_labels, *target_labels)]
    families, missing = choose_fonts("".join(texts))
    if suffix == ".svg":
        texts, missing = [_directed(text) for text in texts], []
    title, *labels = [_coded(text, missing) for text in texts]
    with (
        matplotlib.rc_context({**STYLE, "font.family": families}),
        warnings.catch_warnings(),
        _written(path) as new,
    ):
        # Only in .svg, where it is the reader's concern, are there characters that matplotlib may complain of.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from|Matplotlib currently does not support")
        figure = _figure(weights, labels[: len(source_labels)], labels[len(source_labels) :], title)
        figure.savefig(
            new,
            format=suffix[1:],
            dpi=DOTS_PER_INCH,
            bbox_inches="tight",
            pad_inches=MARGIN,
            metadata=FORMATS[suffix],
        )
    return missing


def check_picture(path: Path) -> None:
    """Refuse a path that no picture can be written to, before there is one."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path.name!r} has no suffix of a picture: it should end in {', '.join(FORMATS)}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file to write")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise DataError(f"{path} cannot be written: the folder {path.parent} is not there or not open to you")


@contextmanager
def _written(path: Path) -> Iterator[Path]:
    """Say of what the system refuses that the picture cannot be written, by its own name."""
    try:
        with replaced_file(path) as new:
            yield new
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None


def _check(weights: Weights, rows: int, columns: int) -> None:
    if weights.shape != (rows, columns):
        raise UsageError(
            f"the weights have the shape {weights.shape}, but there are {rows} target and {columns} source labels"
        )
    if not weights.size:
        raise UsageError("there are no weights to draw; give at least one source and one target token")
    if not (np.isfinite(weights).all() and weights.min() >= 0):
        raise UsageError("the weights hold a value below 0 or not a number; give what a softmax gives")


def _visible(label: str) -> str:
    """A label in which nothing is invisible: codes for control characters, a sign for spaces at the ends."""
    middle = label.strip(" ")
    before, after = ("␣" * len(part) for part in label.split(middle, 1)) if middle else ("␣" * len(label), "")
    hidden = [c for c in middle if not c.isprintable() and (c not in JOINERS or len(middle) == 1)]
    return before + _coded(middle, hidden) + after


def _coded(text: str, characters: Sequence[str]) -> str:
    return "".join(f"<U+{ord(c):04X}>" if c in characters else c for c in text)


def _directed(text: str) -> str:
    """Text that browsers begin on the right if its first letter says so, also where a sign such as ▁ comes before."""
    first = next((unicodedata.bidirectional(c) for c in text if unicodedata.bidirectional(c) in ("L", "R", "AL")), "L")
    return text if first == "L" else RIGHT_TO_LEFT + text


def _figure(weights: Weights, source: list[str], target: list[str], title: str) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = weights.shape
    cell = _cell_side(max(rows, columns))
    width, height = columns * cell, rows * cell
    whole_width, whole_height = width + BAR_GAP + BAR_WIDTH, max(height, BAR_LEAST_HEIGHT)
    figure = Figure(figsize=(whole_width, whole_height), dpi=DOTS_PER_INCH)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 1 - height / whole_height, width / whole_width, height / whole_height))
    image = _draw_cells(axes, weights, cell)
    _write_labels(axes, source, target, cell)
    lines = textwrap.wrap(title, max(TITLE_LEAST_LETTERS, int(whole_width * TITLE_LETTERS_PER_INCH)))
    axes.set_title("\n".join(lines), fontsize=TITLE_TEXT, pad=10, loc="left")
    bar = figure.add_axes(((width + BAR_GAP) / whole_width, 0, BAR_WIDTH / whole_width, 1))
    _draw_bar(figure, bar, image)
    return figure


def _cell_side(count: int) -> float:
    """Inches: large for few tokens, still readable for many, never a picture that no viewer opens."""
    return min(LARGEST_CELL, max(USUAL_MAP / count, SMALLEST_CELL), LARGEST_MAP / count)


def _draw_cells(axes: "Axes", weights: Weights, cell: float) -> "AxesImage":
    rows, columns = weights.shape
    image = axes.imshow(weights, cmap=COLOURS, vmin=0, vmax=weights.max() or 1, aspect="auto", interpolation="nearest")
    if cell >= LINED_CELL:
        axes.set_xticks(np.arange(1, columns) - 0.5, minor=True)
        axes.set_yticks(np.arange(1, rows) - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=2 * cell)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    return image


def _write_labels(axes: "Axes", source: list[str], target: list[str], cell: float) -> None:
    size = min(LARGEST_TEXT, TEXT_IN_CELL * cell * POINTS)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(source)), labels=source)
    axes.set_yticks(range(len(target)), labels=target)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set(fontsize=size)
    turn = _turn(axes, cell, size)
    for label in axes.get_xticklabels():
        label.set(**turn)


def _turn(axes: "Axes", cell: float, size: float) -> dict[str, Any]:
    """Upright where every source label fits above its cell, else slanted if lines do not touch, else vertical."""
    widest = max(label.get_window_extent().width for label in axes.get_xticklabels()) / DOTS_PER_INCH
    if widest <= 0.9 * cell:
        return {"rotation": 0}
    if LINE_HEIGHT * size / POINTS <= cell * math.sin(math.radians(SLANT)):
        return {"rotation": SLANT, "ha": "left", "rotation_mode": "anchor"}
    return {"rotation": 90}


def _draw_bar(figure: "Figure", axes: "Axes", image: "AxesImage") -> None:
    bar = figure.colorbar(image, cax=axes)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=2)
    bar.set_label("attention", fontsize=9)
