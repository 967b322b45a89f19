"""Pieces fit, lose nothing, are cut where it hurts least, and are joined as each script is written."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2edge.errors import DataError
from seq2edge.text.segments import character_ends, fit, join


def letters(text: str) -> int:
    return len(text)


def words(text: str) -> int:
    return len(text.split())


def tokens(text: str) -> int:
    """Something like subwords: three letters of a word each, and the mark of the end."""
    return sum(-(-len(word) // 3) for word in text.split()) + 1


def visible(text: str) -> str:
    return "".join(text.split())


def test_each_sentence_is_a_piece() -> None:
    assert fit("It rains. It pours. The old man is snoring.", words, 5) == [
        "It rains.",
        "It pours.",
        "The old man is snoring.",
    ]
    assert fit("", words, 5) == fit(" \n ", words, 5) == []


def test_a_long_sentence_is_cut_behind_clauses_as_late_as_possible() -> None:
    text = "When it rains, it pours, as they say; and when it snows, “nobody knows,” it is 1,000 times colder: so cold."
    assert fit(text, words, 8) == [
        "When it rains, it pours, as they say;",
        "and when it snows, “nobody knows,”",
        "it is 1,000 times colder: so cold.",
    ]


def test_a_long_clause_is_cut_at_spaces_and_filled() -> None:
    assert fit("Well, one two three four five six seven, eight nine.", words, 4) == [
        "Well,",
        "one two three four",
        "five six seven,",
        "eight nine.",
    ]


def test_a_long_word_is_cut_between_characters() -> None:
    assert fit("an abcdefghijk l", letters, 4) == ["an", "abcd", "efgh", "ijk", "l"]


def test_chinese_is_cut_at_its_own_marks() -> None:
    text = "我喜欢苹果、香蕉和梨，他喜欢“葡萄、”但是她什么都不喜欢；真的。"
    assert fit(text, letters, 12) == ["我喜欢苹果、香蕉和梨，", "他喜欢“葡萄、”", "但是她什么都不喜欢；", "真的。"]


@pytest.mark.parametrize(
    "character",
    [
        "e\u0301\u0323",
        "👩🏽\u200d🚀",
        "🇩🇪",
        "क्षि",
        "เก",
        "กำ",
        "ｶﾞ",
        "ᄒ\u1161ᆫ",
        "\ud83d\ude00",
        "🏴\U000e0067\U000e007f",
    ],
)
def test_what_a_reader_sees_as_one_character_stays_whole(character: str) -> None:
    assert fit(character * 3, letters, len(character)) == [character] * 3
    assert fit(character * 3, letters, 2 * len(character) + 1) == [character * 2, character]
    with pytest.raises(DataError, match="alone has more tokens than fit"):
        fit("a" + character, letters, len(character) - 1)


def test_a_prank_of_many_marks_is_cut_all_the_same() -> None:
    text = "e" + "\u0301" * 1000
    assert "".join(fit(text, letters, 50)) == text


alphabet = st.one_of(
    st.characters(exclude_categories=["Cs"]), st.sampled_from("ab .,;!?。，中あ\u0301\u200d🇩🇪\n\u00a0ก")
)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.text(alphabet, max_size=200), st.sampled_from([letters, words, tokens]), st.integers(3, 40))
def test_every_piece_fits_and_nothing_but_spaces_is_lost(text: str, count, longest: int) -> None:
    try:
        pieces = fit(text, count, longest)
    except ValueError:
        ends = character_ends(text)
        assert any(end - start > longest for start, end in pairwise([0, *ends]))
        return
    assert all(piece == piece.strip() and 0 < count(piece) <= longest for piece in pieces)
    assert visible("".join(pieces)) == visible(text)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.text("\u0301\u0323", max_size=4), max_size=40), st.text("ab,é", min_size=40), st.integers(6, 20))
def test_no_piece_begins_with_a_mark_that_belongs_to_the_one_before(marks: list[str], bases: str, longest: int) -> None:
    text = "".join(base + above + " " * (base == "b") for base, above in zip(bases, marks, strict=False))
    for piece in fit(text, letters, longest):
        assert not unicodedata.combining(piece[0])


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.text("abc", min_size=1, max_size=9), min_size=1), st.integers(9, 30))
def test_words_fill_the_pieces(parts: list[str], longest: int) -> None:
    pieces = fit(" ".join(parts), letters, longest)
    assert " ".join(pieces).split(" ") == parts
    for piece, following in pairwise(pieces):
        assert len(piece) + 1 + len(following.split()[0]) > longest


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.text(alphabet, max_size=60), st.integers(1, 9), st.randoms(use_true_random=False))
def test_a_count_without_rhyme_or_reason_does_not_break_it(text: str, longest: int, chance) -> None:
    known: dict[str, int] = {}

    def count(piece: str) -> int:
        return 1 if len(piece) < 3 else known.setdefault(piece, chance.randint(1, 12))

    try:
        pieces = fit(text, count, longest)
    except ValueError:
        assert any(unicodedata.category(character)[0] in "MC" or ord(character) > 127 for character in text)
        return
    assert all(count(piece) <= longest for piece in pieces)
    assert visible("".join(pieces)) == visible(text)


@pytest.mark.parametrize("longest", [1, 10, 500])
@pytest.mark.parametrize("unit", ["a", "中", "ab ", "a, ", "e\u0301", "🇩"])
def test_a_very_long_text_is_counted_little(unit: str, longest: int) -> None:
    counted: list[int] = []

    def count(piece: str) -> int:
        counted.append(len(piece))
        return -(-len(piece) // 3)

    text = unit * (30_000 // len(unit))
    pieces = fit(text, count, longest)
    assert visible("".join(pieces)) == visible(text)
    assert len(counted) <= len(pieces) * (longest.bit_length() + 6) + 20
    assert sum(counted) <= len(text) * (longest.bit_length() + 8) + 10_000


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        (["Hello.", "", "How are you?", "  "], "Hello. How are you?"),
        (["你好。", "我很好。"], "你好。我很好。"),
        (["他说：“好。”", "然后走了……", "“再见！”"], "他说：“好。”然后走了……“再见！”"),
        (["はい。", "そうです"], "はい。そうです"),
        (["สวัสดี", "ครับ"], "สวัสดีครับ"),
        (["ສະບາຍດີ", "ຂອບໃຈ"], "ສະບາຍດີຂອບໃຈ"),
        (["សួស្តី។", "អរគុណ។"], "សួស្តី។អរគុណ។"),
        (["နေကောင်းလား။", "ကောင်းပါတယ်။"], "နေကောင်းလား။ကောင်းပါတယ်။"),
        (["안녕하세요.", "반갑습니다."], "안녕하세요. 반갑습니다."),
        (["यह है।", "वह है।"], "यह है। वह है।"),
        (["OK.", "好的。", "Bye."], "OK. 好的。 Bye."),
        (["“Yes.”", "“No.”"], "“Yes.” “No.”"),
        (["...", "???"], "... ???"),
        ([" a ", "b\n"], "a b"),
        ([], ""),
    ],
)
def test_pieces_are_joined_as_their_script_is_written(texts: list[str], joined: str) -> None:
    assert join(texts) == joined
