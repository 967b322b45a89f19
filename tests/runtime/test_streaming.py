"""The pieces of a stream add up to the translation, also where a later token changes what stands before it."""

import pytest

from seq2edge.results import Translation
from seq2edge.text.segments import join_texts
from seq2edge.translator import TextsSoFar, TextStream


def grown(*parts: str) -> TextsSoFar:
    """Parts that grow character by character."""
    before = ""
    for part in parts:
        for end in range(1, len(part) + 1):
            yield join_texts([before, part[:end]])
        before = join_texts([before, part])
    return Translation(text=before)


@pytest.mark.parametrize(
    "parts",
    [
        ("你好。", "“中文”很好。"),
        ("你好。", "（是）"),
        ("你好。", "…", "—中"),
        ("Hello.", "“Yes”, he said."),
        ("他说“", "”"),
        ("“", "”"),
        ("...", "(…) [你]"),
    ],
)
def test_pieces_add_up(parts: tuple[str, ...]) -> None:
    stream = TextStream(grown(*parts))
    pieces = list(stream)
    assert stream.translation is not None
    assert "".join(pieces) == stream.translation.text == join_texts(parts)
    assert all(pieces)


def test_half_a_character_is_held_back() -> None:
    def halves() -> TextsSoFar:
        yield "gr\N{REPLACEMENT CHARACTER}"
        yield "grü"
        return Translation(text="grün")

    assert list(TextStream(halves())) == ["grü", "n"]


def test_pieces_that_are_not_the_translation_are_an_error_and_not_cut() -> None:
    def contradicting() -> TextsSoFar:
        yield "one"
        return Translation(text="two three")

    with pytest.raises(RuntimeError, match="bug in seq2edge"):
        list(TextStream(contradicting()))
