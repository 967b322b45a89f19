"""Draw cross-attention as a heat map, with labels in any script."""

import math
import os
import textwrap
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.errors import DataError, UsageError, imports_of_extras

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Weights = NDArray[np.floating[Any]]

# The formats, with the metadata that keeps the date out of the file, so that equal pictures are equal files.
FORMATS: dict[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
STYLE: Any = {  # matplotlib's own type lists all settings
    "text.usetex": False,
    "text.parse_math": False,  # a dollar sign is text
    "svg.fonttype": "none",  # keep text, so that a browser shows any script
    "svg.hashsalt": "seq2edge",
    "pdf.fonttype": 3,  # type 42 loses glyphs of fonts with PostScript outlines, such as many Chinese ones
}
COLOURS = "viridis"  # perceptually uniform, and distinguishable with colour blindness
DOTS_PER_INCH = 150

# Inches.
LARGEST_CELL, SMALLEST_CELL, LINED_CELL, USUAL_MAP, LARGEST_MAP = 0.45, 0.15, 0.2, 9.0, 40.0
BAR_WIDTH, BAR_GAP, BAR_LEAST_HEIGHT, MARGIN = 0.14, 0.18, 1.2, 0.15

POINTS = 72  # in an inch
LARGEST_TEXT, TEXT_IN_CELL, LINE_HEIGHT = 11.0, 0.75, 1.25  # points; fraction of a cell; fraction of the text's size
SLANT = 45  # degrees
TITLE_TEXT, TITLE_LETTERS_PER_INCH, TITLE_LEAST_LETTERS = 12, 11, 40
RIGHT_TO_LEFT = "\u200f"
JOINERS = "\u200c\u200d"  # visible only in the shape of adjacent letters

FIRST_FONT = "DejaVu Sans"  # comes with matplotlib
# Fonts of matplotlib for formulas, whose codes are not Unicode, and for boxes in place of missing glyphs.
NOT_FOR_TEXT = ("Last Resort", "STIXNon", "STIXSize", "DejaVu Sans Display", "DejaVu Serif Display", "cm")
# Scripts whose Noto font has another name than their letters.
NOTO = {"CJK": "CJK", "HIRAGANA": "CJK", "KATAKANA": "CJK", "HANGUL": "CJK", "NKO": "NKo"}


def draw_attention(
    weights: Weights,  # (target, source)
    source_labels: Sequence[str],
    target_labels: Sequence[str],
    path: Path,
    *,
    title: str = "",
) -> list[str]:
    """Draw a heat map with the source on top and the target on the left; return the characters that no font has.

    The suffix determines the format: .png, .svg or .pdf. A character that no installed font has is drawn as its
    code point, <U+4F60>, in .png and .pdf; in .svg it stays text, because the reader's fonts are used there.
    ``font_advice`` tells which fonts to install. Scripts with joining letters or right-to-left direction are drawn
    correctly by matplotlib 3.11 and later; earlier versions draw separate letters from left to right, except in .svg.
    """
    check_picture(path)
    suffix = path.suffix.lower()
    weights = np.asarray(weights, np.float64)  # matplotlib does not draw every float dtype
    _check(weights, len(target_labels), len(source_labels))
    import matplotlib

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
        # Only .svg keeps characters that matplotlib warns of.
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
    """Raise an error before any work is done if a picture cannot be written to ``path``."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path.name!r} has no suffix of a picture: use one of {', '.join(FORMATS)}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise DataError(f"{path} cannot be written: the folder {path.parent} does not exist or is not writable")
    with imports_of_extras():
        import matplotlib  # noqa: F401


@contextmanager
def _written(path: Path) -> Iterator[Path]:
    """Replace ``path`` when the picture is complete; errors name ``path`` instead of the temporary file."""
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
        raise UsageError("there are no weights to draw; pass at least one source and one target token")
    if not (np.isfinite(weights).all() and weights.min() >= 0):
        raise UsageError("the weights have values that are negative or not finite; pass the output of a softmax")


def _visible(label: str) -> str:
    """Make invisible characters visible: control characters as code points, outer spaces as ␣."""
    middle = label.strip(" ")
    before, after = ("␣" * len(part) for part in label.split(middle, 1)) if middle else ("␣" * len(label), "")
    hidden = [c for c in middle if not c.isprintable() and (c not in JOINERS or len(middle) == 1)]
    return before + _coded(middle, hidden) + after


def _coded(text: str, characters: Sequence[str]) -> str:
    return "".join(f"<U+{ord(c):04X}>" if c in characters else c for c in text)


def _directed(text: str) -> str:
    """Mark right-to-left text for browsers, also where a symbol such as ▁ comes before its first letter."""
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
    """Return the side of a cell in inches: readable, but within the size that viewers can open."""
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
    """Keep source labels horizontal if they match their cells, else slanted if lines do not touch, else vertical."""
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


def choose_fonts(text: str) -> tuple[list[str], list[str]]:
    """Return the font families that matplotlib should fall back through, and the characters that no font has.

    Only families that add characters are returned, because matplotlib opens every family it is given.
    """
    from matplotlib.font_manager import FontProperties, fontManager

    families, missing = [FIRST_FONT], set(text)
    for entry in sorted(fontManager.ttflist, key=lambda entry: _preference(entry.name)):
        if not missing:
            break
        if entry.name.startswith(NOT_FOR_TEXT) or not _covered(missing, entry.fname, getattr(entry, "index", 0)):
            continue
        path = fontManager.findfont(FontProperties(family=[entry.name]))  # the file that matplotlib uses
        covered = _covered(missing, str(path), getattr(path, "face_index", 0))
        families += [entry.name] if covered else []
        missing -= covered
    return list(dict.fromkeys(families)), sorted(missing)


def font_advice(missing: Iterable[str]) -> str:
    """Return a sentence that names the characters no font has, and the fonts to install."""
    characters = list(missing)
    fonts = sorted({f"Noto Sans {_script(character)}".strip() for character in characters})
    return f"no installed font has {' '.join(characters)}: install one such as {' and '.join(fonts)}"


def _preference(family: str) -> tuple[bool, bool, bool, bool, str]:
    return (family != FIRST_FONT, "Sans" not in family, "Mono" in family, not family.startswith("Noto"), family)


def _covered(characters: Collection[str], path: str, face: int) -> set[str]:
    """Return the characters that a font file has."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path, face_index=face) if face else FT2Font(path)  # matplotlib 3.10 has no face_index
    except (OSError, RuntimeError):  # deleted or broken
        return set()
    return {character for character in characters if font.get_char_index(ord(character))}


def _script(letter: str) -> str:
    """Return the script as fonts are named after it, from the Unicode name of the letter."""
    words = unicodedata.name(letter, "").split()
    if words and words[0] in NOTO:
        return NOTO[words[0]]
    ends = [words.index(word) for word in ("LETTER", "SYLLABLE", "VOWEL", "SIGN", "DIGIT") if word in words]
    return " ".join(words[: min(ends)]).title() if ends else ""
