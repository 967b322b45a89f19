"""Installed fonts that together can draw text in any script; needs matplotlib."""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

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
