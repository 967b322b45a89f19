"""Segments have at most the maximum number of tokens, lose no text, and are joined as each script requires."""

import unicodedata
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.errors import DataError, TextTooLongError
from seq2edge.text.segments import character_ends, join_texts, make_segments, split_to_max_tokens
from seq2edge.text.tokenizer import Tokenizer


def letters(text: str) -> int:
    return len(text)


def words(text: str) -> int:
    return len(text.split())


def tokens(text: str) -> int:
    """Count like subwords: one token for every three letters of a word, and an end token."""
    return sum(-(-len(word) // 3) for word in text.split()) + 1


def visible(text: str) -> str:
    return "".join(text.split())


def test_each_sentence_is_a_part() -> None:
    assert split_to_max_tokens("It rains. It pours. The old man is snoring.", words, 5) == [
        "It rains.",
        "It pours.",
        "The old man is snoring.",
    ]
    assert split_to_max_tokens("", words, 5) == split_to_max_tokens(" \n ", words, 5) == []


def test_a_long_sentence_is_split_after_clauses_as_late_as_possible() -> None:
    text = "When it rains, it pours, as they say; and when it snows, “nobody knows,” it is 1,000 times colder: so cold."
    assert split_to_max_tokens(text, words, 8) == [
        "When it rains, it pours, as they say;",
        "and when it snows, “nobody knows,”",
        "it is 1,000 times colder: so cold.",
    ]


def test_a_long_clause_is_split_at_spaces_as_late_as_possible() -> None:
    assert split_to_max_tokens("Well, one two three four five six seven, eight nine.", words, 4) == [
        "Well,",
        "one two three four",
        "five six seven,",
        "eight nine.",
    ]


def test_a_long_word_is_split_between_characters() -> None:
    assert split_to_max_tokens("an abcdefghijk l", letters, 4) == ["an", "abcd", "efgh", "ijk", "l"]


def test_chinese_is_split_at_its_own_punctuation() -> None:
    text = "我喜欢苹果、香蕉和梨，他喜欢“葡萄、”但是她什么都不喜欢；真的。"
    assert split_to_max_tokens(text, letters, 12) == [
        "我喜欢苹果、香蕉和梨，",
        "他喜欢“葡萄、”",
        "但是她什么都不喜欢；",
        "真的。",
    ]


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
def test_what_a_reader_sees_as_one_character_is_not_split(character: str) -> None:
    assert split_to_max_tokens(character * 3, letters, len(character)) == [character] * 3
    assert split_to_max_tokens(character * 3, letters, 2 * len(character) + 1) == [character * 2, character]
    with pytest.raises(DataError, match="has more tokens than the model takes"):
        split_to_max_tokens("a" + character, letters, len(character) - 1)


def test_a_character_with_very_many_marks_is_split() -> None:
    text = "e" + "\u0301" * 1000
    assert "".join(split_to_max_tokens(text, letters, 50)) == text


alphabet = st.one_of(
    st.characters(exclude_categories=["Cs"]), st.sampled_from("ab .,;!?。，中あ\u0301\u200d🇩🇪\n\u00a0ก")
)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.text(alphabet, max_size=200), st.sampled_from([letters, words, tokens]), st.integers(3, 40))
def test_no_part_is_too_long_and_only_spaces_are_lost(text: str, count, max_tokens: int) -> None:
    try:
        parts = split_to_max_tokens(text, count, max_tokens)
    except ValueError:
        ends = character_ends(text)
        assert any(end - start > max_tokens for start, end in pairwise([0, *ends]))
        return
    assert all(part == part.strip() and 0 < count(part) <= max_tokens for part in parts)
    assert visible("".join(parts)) == visible(text)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.text("\u0301\u0323", max_size=4), max_size=40), st.text("ab,é", min_size=40), st.integers(6, 20))
def test_no_part_begins_with_a_combining_mark(marks: list[str], bases: str, max_tokens: int) -> None:
    text = "".join(base + above + " " * (base == "b") for base, above in zip(bases, marks, strict=False))
    for part in split_to_max_tokens(text, letters, max_tokens):
        assert not unicodedata.combining(part[0])


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.text("abc", min_size=1, max_size=9), min_size=1), st.integers(9, 30))
def test_parts_are_as_long_as_possible(words: list[str], max_tokens: int) -> None:
    parts = split_to_max_tokens(" ".join(words), letters, max_tokens)
    assert " ".join(parts).split(" ") == words
    for part, following in pairwise(parts):
        assert len(part) + 1 + len(following.split()[0]) > max_tokens


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.text(alphabet, max_size=60), st.integers(1, 9), st.randoms(use_true_random=False))
def test_an_irregular_token_count_is_handled(text: str, max_tokens: int, chance) -> None:
    known: dict[str, int] = {}

    def count(part: str) -> int:
        return 1 if len(part) < 3 else known.setdefault(part, chance.randint(1, 12))

    try:
        parts = split_to_max_tokens(text, count, max_tokens)
    except ValueError:
        assert any(unicodedata.category(character)[0] in "MC" or ord(character) > 127 for character in text)
        return
    assert all(count(part) <= max_tokens for part in parts)
    assert visible("".join(parts)) == visible(text)


@pytest.mark.parametrize("max_tokens", [1, 10, 500])
@pytest.mark.parametrize("unit", ["a", "中", "ab ", "a, ", "e\u0301", "🇩"])
def test_the_tokens_of_a_very_long_text_are_counted_rarely(unit: str, max_tokens: int) -> None:
    counted: list[int] = []

    def count(part: str) -> int:
        counted.append(len(part))
        return -(-len(part) // 3)

    text = unit * (30_000 // len(unit))
    parts = split_to_max_tokens(text, count, max_tokens)
    assert visible("".join(parts)) == visible(text)
    assert len(counted) <= len(parts) * (max_tokens.bit_length() + 6) + 20
    assert sum(counted) <= len(text) * (max_tokens.bit_length() + 8) + 10_000


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
def test_texts_are_joined_as_their_script_requires(texts: list[str], joined: str) -> None:
    assert join_texts(texts) == joined


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(DEFAULT_BUNDLE / "tokenizer.model", DEFAULT_BUNDLE / "tokenizer.model", eos=3)


class TestSplitIntoSentences:
    """A text of several sentences has one segment for each, with the white space before it."""

    def parts(self, text: str, tokenizer: Tokenizer, *, max_tokens: int = 256) -> list[tuple[str, str]]:
        segments = make_segments([text], tokenizer, max_tokens=max_tokens, long="split", split="sentences")
        assert [segment.index for segment in segments] == list(range(len(segments)))
        return [(segment.space, segment.text) for segment in segments]

    def test_white_space_is_kept_exactly(self, tokenizer: Tokenizer) -> None:
        assert self.parts(" One. Two.\r\n\r\n\tThree.  Four.\u3000Five\n", tokenizer) == [
            ("", "One."),
            (" ", "Two."),
            ("\r\n\r\n\t", "Three."),
            ("  ", "Four."),
            ("\u3000", "Five"),
        ]

    def test_white_space_around_invisible_lines_is_kept(self, tokenizer: Tokenizer) -> None:
        assert self.parts("One.\n\u200b\nTwo.", tokenizer) == [("", "One."), ("\n\n", "Two.")]

    def test_one_sentence_is_left_as_it_is(self, tokenizer: Tokenizer) -> None:
        assert self.parts("  Mr. Brown came.\n", tokenizer) == [("", "  Mr. Brown came.\n")]

    def test_a_text_without_visible_characters_has_no_segments(self, tokenizer: Tokenizer) -> None:
        assert self.parts(" \r\n\u3000", tokenizer) == self.parts("", tokenizer) == []

    def test_a_long_sentence_is_split_further(self, tokenizer: Tokenizer) -> None:
        segments = make_segments(
            ["Yes.\nWell, a dog, a cat,\ta dog. No."], tokenizer, max_tokens=5, long="split", split="sentences"
        )
        assert [segment.sentence for segment in segments] == [0, 1, 1, 1, 1, 2]
        assert [segment.space for segment in segments] == ["", "\n", " ", " ", "\t", " "]
        with pytest.raises(TextTooLongError, match="a sentence of text 1 has"):
            make_segments(["Yes. Well, a dog, a cat."], tokenizer, max_tokens=5, long="error", split="sentences")

    @settings(deadline=None, derandomize=True, max_examples=200)
    @given(st.text(alphabet, max_size=120), st.integers(6, 40))
    def test_segments_and_their_white_space_are_the_text(
        self, tokenizer: Tokenizer, text: str, max_tokens: int
    ) -> None:
        try:
            parts = self.parts(text, tokenizer, max_tokens=max_tokens)
        except DataError:
            return
        if len(parts) > 1 and not any(unicodedata.category(character)[0] in "CM" for character in text):
            assert "".join(space + part for space, part in parts) == text.strip()

    def test_the_segments_of_a_text_do_not_depend_on_other_texts(self, tokenizer: Tokenizer) -> None:
        texts = ["One. Two.", "", "Three", "Four! Five? Six."]
        together = make_segments(texts, tokenizer, max_tokens=256, long="split", split="sentences")
        alone = [
            replace(segment, text_index=index)
            for index, text in enumerate(texts)
            for segment in make_segments([text], tokenizer, max_tokens=256, long="split", split="sentences")
        ]
        assert together == alone


@pytest.mark.parametrize(
    ("texts", "spaces", "joined"),
    [
        (["One.", "Two.", "Three."], ["", "\n\n", "  "], "One.\n\nTwo.  Three."),
        (["One.", "", "Two."], ["", "\n", "\n"], "One.\n\nTwo."),
        (["Hello.", "Bye."], ["", ""], "Hello. Bye."),  # from Chinese
        (["你好。", "再见。"], ["", " "], "你好。再见。"),  # into Chinese
        (["你好。", "再见。"], ["", "\n"], "你好。\n再见。"),
        (["好。", "……", "好。"], ["", " ", " "], "好。 ……好。"),
    ],
)
def test_texts_are_joined_with_their_white_space(texts: list[str], spaces: list[str], joined: str) -> None:
    assert join_texts(texts, spaces) == joined
