"""Attention is drawn with labels in any script, into a file that appears complete or not at all."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2edge.errors import DataError, MissingExtraError, UsageError
from seq2edge.scoring.plot import DOTS_PER_INCH, FIRST_FONT, LARGEST_CELL, choose_fonts, draw_attention, font_advice

pytest.importorskip("matplotlib")

import matplotlib as mpl
from matplotlib.font_manager import fontManager
from matplotlib.image import imread

UNASSIGNED = "\u0378"  # Unicode has no such character, so no font should
BEGINNINGS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
SCRIPTS = ["▁Wo", "▁где", "▁你好", "▁नमस्ते", "▁ߒߞߏ", "▁한국어", "▁გამარჯობა"]


def labels(count: int) -> list[str]:
    return [f"▁word{number}" for number in range(count)]


def even(rows: int, columns: int) -> np.ndarray:
    return np.full((rows, columns), 1 / columns, np.float32)


def texts(path: Path) -> list[str]:
    """Return the texts in an .svg file."""
    return ["".join(node.itertext()) for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture
def few_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the fonts that come with matplotlib."""
    ours = [entry for entry in fontManager.ttflist if entry.fname.startswith(mpl.get_data_path())]
    monkeypatch.setattr(fontManager, "ttflist", ours)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_the_suffix_determines_the_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    assert draw_attention(even(2, 3), labels(3), labels(2), path, title="Two of three") == []
    assert path.read_bytes().startswith(BEGINNINGS[suffix.lower()])
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", list(BEGINNINGS))
def test_equal_pictures_are_equal_files(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        draw_attention(even(2, 2), labels(2), labels(2), tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


@pytest.mark.parametrize("name", ["a.jpg", "a", "png", "a.png.gz"])
def test_another_suffix_is_refused_with_those_allowed(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"\.png, \.svg, \.pdf"):
        draw_attention(even(1, 1), ["a"], ["b"], tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        (even(3, 2), r"the shape \(3, 2\), but there are 2 target and 3 source labels"),
        (np.zeros(3), r"the shape \(3,\)"),
        (np.full((2, 3), np.nan), "not finite"),
        (np.full((2, 3), -1.0), "negative"),
    ],
)
def test_invalid_weights_are_refused(tmp_path: Path, weights: np.ndarray, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        draw_attention(weights, labels(3), labels(2), tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no weights to draw"):
        draw_attention(np.zeros((0, 0)), [], [], tmp_path / "a.png")


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"old")
    monkeypatch.setattr("seq2edge.scoring.plot.DOTS_PER_INCH", 10**7)  # more pixels than there can be
    with pytest.raises((ValueError, MemoryError)):
        draw_attention(even(2, 2), labels(2), labels(2), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"seq2edge\[plot\]"):
        draw_attention(even(1, 1), ["a"], ["b"], tmp_path / "a.png")


def test_a_row_is_a_target_token_and_a_column_a_source_token(tmp_path: Path) -> None:
    draw_attention(np.array([[0, 0, 1], [0, 0, 0]], np.float16), ["", "", ""], ["", ""], tmp_path / "a.png")
    colours = mpl.colormaps["viridis"]
    picture = imread(tmp_path / "a.png")[..., :3]
    side = LARGEST_CELL * DOTS_PER_INCH
    picture = picture[:, : int(picture.shape[1] - 1.5 * side)]  # without the colour bar
    bright, dark = (np.argwhere(abs(picture - colours(share)[:3]).max(-1) < 0.02) for share in (1.0, 0.0))
    assert len(bright) == pytest.approx(side**2, rel=0.1)
    assert len(dark) == pytest.approx(5 * side**2, rel=0.1)
    assert bright[:, 1].min() > dark[:, 1].mean()  # on the right
    assert bright[:, 0].max() < dark[:, 0].mean() + side / 2  # and above


@pytest.mark.parametrize(
    ("count", "smallest", "largest"), [(1, 60, 400), (3, 200, 700), (25, 1200, 2000), (80, 1800, 2600)]
)
def test_pictures_are_neither_tiny_nor_huge(tmp_path: Path, count: int, smallest: int, largest: int) -> None:
    draw_attention(even(count, count), labels(count), labels(count), tmp_path / "a.png")
    height, width, _ = imread(tmp_path / "a.png").shape
    assert smallest < height < largest
    assert smallest < width < largest


def test_svg_keeps_every_script_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    assert draw_attention(even(7, 7), SCRIPTS, SCRIPTS, path, title="你好 नमस्ते") == []
    shown = [text.lstrip("\u200f") for text in texts(path)]
    for label in (*SCRIPTS, "你好 नमस्ते"):
        assert label in shown


def test_svg_begins_on_the_right_where_the_script_does(tmp_path: Path) -> None:
    draw_attention(even(1, 3), ["▁שלום", "▁مرحبا", "▁Hallo"], ["12"], tmp_path / "a.svg")
    assert texts(tmp_path / "a.svg")[:4] == ["\u200f▁שלום", "\u200f▁مرحبا", "▁Hallo", "12"]


def test_formulas_are_drawn_as_plain_text(tmp_path: Path) -> None:
    odd = ["$5", "a_b$x^2$", r"\alpha", "<b>&amp;", "%"]
    draw_attention(even(5, 5), odd, odd, tmp_path / "a.svg", title="$x$ costs $5")
    assert texts(tmp_path / "a.svg")[:5] == odd
    assert "$x$ costs $5" in texts(tmp_path / "a.svg")


def test_invisible_characters_are_drawn_as_code_points(tmp_path: Path) -> None:
    odd = ["\n", " a", "  ", "\u200b", "\ud800", "\x00", "", "\u200d", "می\u200cخواهم"]
    draw_attention(even(1, 9), odd, ["x"], tmp_path / "a.svg")
    shown = [text.lstrip("\u200f") for text in texts(tmp_path / "a.svg")]
    expected = ["<U+000A>", "␣a", "␣␣", "<U+200B>", "<U+D800>", "<U+0000>", "<U+200D>", "می\u200cخواهم", "x"]
    assert shown[:9] == expected  # matplotlib writes nothing where there is nothing


@pytest.mark.usefixtures("few_fonts")
@pytest.mark.parametrize("suffix", [".png", ".pdf"])
def test_characters_without_a_font_are_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    assert draw_attention(even(2, 2), ["▁你", "好a"], ["▁न", "b"], path, title="你") == ["न", "你", "好"]
    assert path.exists()


@pytest.mark.usefixtures("few_fonts")
def test_scripts_of_the_first_font_need_no_other() -> None:
    assert choose_fonts("▁Straße ␣ где χαίρε مرحبا שלום ߒߞߏ გამარჯობა բարեւ") == ([FIRST_FONT], [])


@pytest.mark.usefixtures("few_fonts")
def test_another_font_is_used_where_the_first_has_no_glyph(tmp_path: Path) -> None:
    letter = "ᶁ"  # of phonetics
    families, missing = choose_fonts(f"a{letter}{UNASSIGNED}")
    assert families == [FIRST_FONT, "STIXGeneral"]
    assert missing == [UNASSIGNED]
    for suffix in BEGINNINGS:  # a warning about a missing glyph would be an error here
        assert draw_attention(even(1, 1), [letter], ["a"], tmp_path / f"a{suffix}") == []


def test_a_font_of_boxes_for_missing_glyphs_is_not_used() -> None:
    assert choose_fonts(UNASSIGNED)[1] == [UNASSIGNED]


def test_the_advice_names_characters_and_fonts() -> None:
    assert font_advice(["你", "好"]) == "no installed font has 你 好: install one such as Noto Sans CJK"
    assert font_advice(["न", "ߒ", "한"]).endswith("Noto Sans CJK and Noto Sans Devanagari and Noto Sans NKo")
    assert font_advice(["\U0001f600"]).endswith("such as Noto Sans")


def test_drawing_leaves_matplotlib_as_it_was(tmp_path: Path) -> None:
    before, with_pyplot = mpl.rcParams.copy(), "matplotlib.pyplot" in sys.modules
    draw_attention(even(1, 1), ["a"], ["b"], tmp_path / "a.svg")
    assert mpl.rcParams.copy() == before
    assert ("matplotlib.pyplot" in sys.modules) == with_pyplot


@settings(max_examples=10, deadline=None)
@given(st.lists(st.text(max_size=6), min_size=1, max_size=4), st.text(max_size=20))
def test_any_text_can_be_drawn(tmp_path_factory: pytest.TempPathFactory, names: list[str], title: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    for suffix in (".png", ".svg"):
        draw_attention(even(1, len(names)), names, ["x"], folder / f"any{suffix}", title=title)
    assert texts(folder / "any.svg")


@pytest.mark.parametrize("name", ["folder.png", "no/such/folder/a.png", "x" * 250 + ".png"])
def test_a_picture_that_cannot_be_written_is_named_by_its_own_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(DataError) as refusal:
        draw_attention(np.ones((1, 1)), ["a"], ["b"], tmp_path / name)
    assert str(refusal.value).startswith(f"{tmp_path / name} ")
