"""Documents keep their markup: around the words that it belongs to in the translation."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from seq2edge.results import Translation
from seq2edge.scoring.attention import Attention
from seq2edge.serve.documents import (
    Document,
    html_document,
    markdown_document,
    subtitle_document,
    text_document,
)
from seq2edge.serve.words import Span, align_words, word_spans


def aligned(source: str, target: str, pairs: list[tuple[int, int]]) -> Translation:
    """A translation whose words are aligned as told, by their numbers."""
    words = [tuple(text[slice(*span)] for span in word_spans(text)) for text in (source, target)]
    weights = np.zeros((len(words[1]), len(words[0])), np.float32)
    found = Attention(source=words[0], target=words[1], blocks=(weights,), alignment=tuple(pairs))
    return Translation(text=target, attention=found)


def same(texts: list[str]) -> list[Translation]:
    """Every text as its own translation."""
    return [aligned(text, text, [(one, one) for one in range(len(word_spans(text)))]) for text in texts]


def test_words_are_found_by_their_characters() -> None:
    translation = aligned("It's the red house.", "É a casa vermelha.", [(0, 0), (1, 1), (3, 2), (2, 3), (4, 4)])
    found = dict(align_words("It's the red house.", translation))
    assert found[Span(4, 8)] == [Span(13, 18)]  # casa
    assert found[Span(9, 17)] == [Span(9, 12)]  # vermelha


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (html_document, "<p>The <b>red</b> house &amp; a &lt; b</p><script>if (a < b) run()</script>"),
        (html_document, "<!doctype html><html><!-- c --><body class=x>One<br>two <img src=a> three</body></html>"),
        (html_document, "<p translate='no'>The house</p> <span class='notranslate'>a <b>b</b></span> and more"),
        (html_document, "unfinished <b and <i>more"),
        (html_document, "<b>overlapping <i>marks</b> here</i>"),
        (html_document, 'a <a href="x>y">link</a>, 3 &lt; 4'),
        (
            markdown_document,
            "# Title\n\nSome *text* with **bold**, `code` and [a link](http://x/y_z_).\n\n- one\n- two\n",
        ),
        (markdown_document, "```py\ndef f(): pass\n```\n\n    indented code\n\n> quoted\n\n1. first\n"),
        (markdown_document, "| a | b |\n|---|---|\n| one | two |\n\n![picture](x.png) and text\n"),
        (
            subtitle_document,
            "1\n00:00:01,000 --> 00:00:02,000\n<i>Good</i> morning.\n\n2\n00:00:03,000 --> 00:00:04,000\nBye.\n",
        ),
        (text_document, "\n  One line.\n\nAnother one.\n"),
        (html_document, "<p>\n  <b>All</b> of <i class='icon'></i> it <a href='x'><img src=y></a> here\n</p>"),
        (html_document, "<b>A <i>b</i> c</b>&nbsp;<P><B>D</B></P>".replace("&nbsp;", "\xa0")),
        (markdown_document, "---\ntitle: The house\n---\n\nTitle\n=====\n\nOther\n---\n\n* * *\n"),
        (markdown_document, "See [the house][id], [^1] and http://a.b/c_d_e.\n\n[^1]: A note.\n[id]: http://x.y/z_z\n"),
        (markdown_document, "First line\\\nsecond  \nthird \\*star\\* 2 * 3 * 4 snake_case_name\n"),
        (markdown_document, "a | b\n--|--\n`c` | d \\| e\n\n<!-- a\n\nb -->\n<div>\n\nText\n\n</div>\n"),
        (markdown_document, "1. one\n\n   ```\n   code\n   ```\n\n   more\n   - [x] done\n\n## Heading ##\n"),
        (markdown_document, "\r\n# Windows\r\n\r\n- one\r\n- two\r\n"),
        (
            subtitle_document,
            "1\r\n00:00:01,000 --> 00:00:02,000\r\n{\\an8}<i>Good</i> morning.\r\n\r\n\r\n"
            "2\r\n00:00:03,000 --> 00:00:04,000\r\n- Bye.\r\n- Good bye.\r\n",
        ),
        (subtitle_document, "\n\n1\n00:00:01,000 --> 00:00:02,000 X1:1\n\n2\n00:00:03,000 --> 00:00:04,000\n123\n"),
    ],
)
def test_a_document_whose_texts_stay_the_same_stays_the_same(document: Callable[[str], Document], text: str) -> None:
    made = document(text)
    assert made.filled(same(made.texts)) == text


def test_markup_follows_its_words() -> None:
    document = html_document("<p>The <b>red</b> house</p>")
    assert document.texts == ["The red house"]
    translation = aligned("The red house", "A casa vermelha", [(0, 0), (2, 1), (1, 2)])
    assert document.filled([translation]) == "<p>A casa <b>vermelha</b></p>"


def test_code_and_what_is_marked_so_is_not_translated() -> None:
    text = "<pre>the house</pre><style>p {}</style><p translate=no>the house</p><p>Yes</p>"
    assert html_document(text).texts == ["Yes"]
    assert markdown_document("```\nthe house\n```\n\n`code` Yes\n").texts == ["Yes"]


@pytest.mark.parametrize(
    ("document", "text", "texts"),
    [
        (html_document, "<p>The house\n   is <b>old\nand</b> red.</p>", ["The house is old and red."]),
        (markdown_document, "The house\nis old\nand red.\n", ["The house is old and red."]),
        (markdown_document, "- The house\n  is old\n  - and\n    red\n", ["The house is old", "and red"]),
        (markdown_document, "> The house\n> is old\n\n1. one\n\n    two\n", ["The house is old", "one", "two"]),
        (subtitle_document, "1\n0:01 --> 0:02\nThe house\nis old.\n", ["The house is old."]),
        (subtitle_document, "1\n0:01 --> 0:02\n- The house\nis old.\n- Yes.\n", ["The house is old.", "Yes."]),
    ],
)
def test_a_sentence_does_not_end_with_its_line(
    document: Callable[[str], Document], text: str, texts: list[str]
) -> None:
    assert document(text).texts == texts


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("<div translate=no><div>a</div> b</div> c", ["c"]),
        ("<p TRANSLATE='NO'>a</p> b", ["b"]),
        ("<p data-translate='no'>a</p>", ["a"]),
        ('<p class="x notranslate">a<p>b', ["a", "b"]),  # does not end, so that it would be all of the page
        ("Hello <span class=notranslate>Foo <span>Bar</span> Baz</span> world", ["Hello world"]),
        ("<script>document.write('<script>')</script> a", ["a"]),
    ],
)
def test_elements_that_are_not_translated_end_where_they_should(text: str, texts: list[str]) -> None:
    assert html_document(text).texts == texts


def test_marks_without_text_stay_where_they_can() -> None:
    [run] = html_document("See <code>x</code> for <img> it all.").runs
    assert run.text == "See for it all."
    translation = aligned(run.text, "Veja mais.", [(0, 0), (3, 1), (4, 2)])
    assert run.filled(translation) == "Veja <code>x</code> <img> mais."
    [run] = html_document("See <code>x</code> for it").runs
    assert run.filled(aligned(run.text, "Veja", [(0, 0)])) == "Veja <code>x</code>"


def test_marks_around_all_of_a_text_need_no_alignment() -> None:
    document = html_document("<p> <b><i>The house.</i></b> </p>")
    assert not document.needs_alignment
    assert document.filled([Translation(text="A casa.")]) == "<p> <b><i>A casa.</i></b> </p>"


def test_without_alignment_a_text_ends_at_its_marks() -> None:
    document = html_document("<p>The <a href='x'>red house</a> is old.</p>")
    assert document.needs_alignment
    cut = document.without_alignment()
    assert cut.texts == ["The", "red house", "is old."]
    filled = cut.filled([Translation(text=one) for one in ("A", "casa vermelha", "é velha.")])
    assert filled == "<p>A <a href='x'>casa vermelha</a> é velha.</p>"


def test_a_subtitle_has_as_many_lines_as_before() -> None:
    document = subtitle_document("1\n00:00:01,000 --> 00:00:02,000\nThe old man\nand the sea\n")
    assert document.texts == ["The old man and the sea"]
    translation = Translation(text="O velho homem e o grande mar")
    assert document.filled([translation]).splitlines()[2:] == ["O velho homem", "e o grande mar"]


@pytest.mark.parametrize("document", [html_document, markdown_document, subtitle_document, text_document])
def test_any_text_is_a_document(document: Callable[[str], Document]) -> None:
    chance = Random(1)
    parts = [
        "<",
        ">",
        "<b>",
        "</b>",
        "<p>",
        "</p>",
        "&amp;",
        '"',
        "'",
        "word",
        " ",
        "\n",
        "`",
        "*",
        "[a](b)",
        "-->",
        "1",
    ]
    for _ in range(500):
        made = document("".join(chance.choice(parts) for _ in range(chance.randint(0, 30))))
        assert made.filled(same(made.texts)) is not None


def test_an_unclosed_tag_takes_no_long_time() -> None:
    for text in ("<a " * 100_000, '<a "' * 100_000, "<" * 200_000, "[" * 50_000, "*" * 100_000):
        html_document(text)
        markdown_document(text)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (html_document, "< " * 100_000 + ">"),
        (html_document, "<b>" * 40_000 + "word " * 10_000 + "</b>" * 10_000),
        (html_document, "<b>" * 20_000 + "word " * 10_000 + "</b>" * 20_000),
        (html_document, "<i>word</i> " * 15_000),
        (html_document, "word <br>" * 20_000),
        (html_document, "<script>" * 25_000),
        (html_document, "<b translate=no>" * 12_000),
        (html_document, "<code" + " " * 100_000 + "</code" + " " * 100_000),
        (html_document, "<!--" * 50_000),
        (markdown_document, "a" + " " * 200_000 + "b"),
        (markdown_document, "`" * 100_000 + "a"),
        (markdown_document, "![" * 60_000),
        (markdown_document, "](" * 60_000),
        (markdown_document, "[a](" * 40_000),
        (markdown_document, "*a" * 60_000),
        (markdown_document, "> " * 60_000 + "a"),
        (subtitle_document, "1\n0 --> 1\n" + "a\n" * 60_000),
        (subtitle_document, "\n \n" * 50_000),
        (subtitle_document, " " * 200_000),
        (html_document, "".join(f"<x{number} translate=no>" for number in range(100_000))),
        (html_document, "<b><i></i></b>" * 15_000 + "a"),
        (html_document, "<div translate=no><div></div>" * 20_000),
        (markdown_document, "# a" + " #" * 100_000 + "a"),
        (markdown_document, "a\n" * 100_000),
        (markdown_document, "---\na: b\n" * 20_000),
    ],
)
def test_no_document_of_full_size_takes_quadratic_time(read: Callable[[str], Document], text: str) -> None:
    """It would take minutes."""
    document = read(text)
    assert document.filled([Translation(text=one) for one in document.texts])
