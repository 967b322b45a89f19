"""Sentences end where a reader expects it, in any script, and no text is lost."""

from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seq2edge.text.sentence_splitter import split_sentences

LABELLED = sorted((Path(__file__).parent / "sentences").glob("*.txt"))  # a sentence per line, blank lines between texts
TEXTS = {
    "three marks": "Hello there. | How are you? | Fine!",
    "quotes and brackets": '"Really?" he asked. | "Yes." | She left. | (It was late.) | He slept.',
    "German quotes": "»Komm.« | Dann ging er. | „Ja!“ | Er lachte.",
    "French quotes and spaces": "« Quoi ? » dit-il. | « Rien. » | Elle partit. | « Fin ! »",
    "dots": "Wait... | What? | Hmm… ok then. | So be it.",
    "decimals and names": "He paid 3.14 dollars for v1.2.3 of Node.js on example.com. | Done.",
    "initials": "It was J. Smith. | J. R. R. Tolkien and J.R.R. Tolkien and J.-P. Sartre met. | Then they left.",
    "acronyms": "U.S. officials met the U.S. Government. | He lives in the U.S. | She came at 5 p.m. | The end.",
    "English abbreviations": "Mr. Brown, Dr. Grey vs. St. John, e.g. Peter, i.e. Pan. | They eat fish etc. | Then no.",
    "a small letter goes on": "They eat fish, chips etc. and drink. | Yahoo! is old. | Really? said he.",
    "German abbreviations": "Das ist z.B. Eva, z. B. Ida, d.h. Mary bzw. Anna, Dipl.-Ing. Kurz. | Es war 44 v. Chr.",
    "German ordinals and dates": "Am 3. Mai und am 3. 5. 2020 war er im 19. Jahrhundert. | Er ist 25. | Sie ist 30.",
    "Spanish": "El Sr. García llegó. | La Sra. López también. | ¿Qué? | ¡Nada! | ¿Y tú?",
    "French": "M. Dupont et Mme. Durand sont là. | Ils partent.",
    "Russian": "В 1990 г. | Он живёт в г. Москва, т.е. Там. | Это я. | Он ушёл.",
    "Greek": "Τι κάνεις; | Καλά. | Εσύ;",
    "numbers": "See No. 5, p. 12 and Fig. 3. | No. | That is wrong. | Smith et al. (2010) knew.[1] | Others too.[2][3]",
    "numbered lines": "1. First do this. | 2. Then do that. | II. Results follow.",
    "marks alone": "!!! Achtung! | Bye. !!! | And so on. ...",
    "no capitals at all": "good morning. | how is mr. brown? | well... he is fine etc. and so is she. | bye! | see you",
    "some capitals": "I don't know. | I came yesterday. | maybe tomorrow. | approx. ten. and more, abbrev. as usual.",
    "emoji": "Great! 😀 | See you.👍🏽 | Bye! 😀 and more",
    "German ordinals after articles": "Das 6. Treffen der III. Gruppe begann. | Er kam als 6. | Anna kam zuerst.",
    "abbreviations of two words": "Obst, d. h. Äpfel, z. B. Boskop, kostet 3 Mio. Euro. | Ende.",
    "abbreviations that may end": "Apple Inc. California is big. | He joined Apple Inc. | The end.",
    "Georgian has no capitals": "ეს წინადადებაა. | ეს მეორეა.",
    "Korean": "네. | 그래요. | 안녕하세요! | 반갑습니다.",
    "Hindi": "यह एक वाक्य है। | यह दूसरा है॥ | कैसे हो? | ठीक।",
    "Arabic": "كيف حالك؟ | أنا بخير. | شكرا.",
    "Armenian and Amharic": "Ինչպես եք։ | Լավ։ | ይህ ነው። | ሰላም።",
    "Burmese and Khmer": "နေကောင်းလား။ | ကောင်းပါတယ်။ | សួស្តី។ | អរគុណ។",
    "Thai has no marks": "สวัสดีครับ สบายดีไหม",
}
UNSPACED_TEXTS = {
    "Chinese": "你好吗？|我很好。|他说：“好。”|然后走了！|3.14是圆周率。|OK!|好的?|是",
    "Japanese": "「はい。」と言った。|それから帰った。|「そうだ！」|彼は叫んだ…そして。|えっ！？|本当",
    "Chinese quotes": "他来了。|“你好！”|她说。|“再见。”|“走吧。”|他们走了。",
    "straight quotes": '他来了。|"你好！"|她说。|"再见。"|他们走了。',
    "Urdu": "یہ ہے۔|وہ ہے۔",
}


@pytest.mark.parametrize("name", TEXTS)
def test_sentences_end_before_spaces(name: str) -> None:
    assert split_sentences(TEXTS[name].replace("| ", "")) == TEXTS[name].split(" | ")


@pytest.mark.parametrize("name", UNSPACED_TEXTS)
def test_sentences_end_without_spaces(name: str) -> None:
    assert split_sentences(UNSPACED_TEXTS[name].replace("|", "")) == UNSPACED_TEXTS[name].split("|")


@pytest.mark.parametrize("file", LABELLED, ids=lambda file: file.stem)
def test_labelled_texts_are_split_as_labelled(file: Path) -> None:
    space = "" if file.stem in ("ja", "zh") else " "
    lines = file.read_text(encoding="utf-8").splitlines()
    for sentences in (list(group) for filled, group in groupby(lines, key=bool) if filled):
        assert split_sentences(space.join(sentences)) == sentences


def test_a_line_break_ends_a_sentence() -> None:
    assert split_sentences("  A title\n\nand a text\r\nin lines. Two\u2028more ") == [
        "A title",
        "and a text",
        "in lines.",
        "Two",
        "more",
    ]


def test_a_text_without_words_is_one_sentence_or_none() -> None:
    assert split_sentences("... !!! ???") == ["... !!! ???"]
    assert split_sentences("") == split_sentences(" \n\u3000") == []


marked = st.text(st.sampled_from("aB3é中あ .!?…。！？।؟»«\"')]\n\u00a0\u0301[1-;:,"))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.one_of(st.text(), marked))
@example("a.\x1fB. \x85c")
def test_only_spaces_are_lost(text: str) -> None:
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        ". ",
        "!! ",
        "A. ",
        "z. B. ",
        "1. ",
        "。",
        '." ',
        "。」",
        ". \u0301",
        "... [1]",
        ".",
        "! 😀",
        "😀",
        "\r\n",
        '。"と',
        "no. 7 ",
        "d. h. ",
        "。“",
    ],
)
def test_a_very_long_text_does_not_take_quadratic_time(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
