"""What counts as a word, and how words become a text again; needs nothing.

``spaces``: whatever stands between spaces is a word, and words are joined by spaces. For text that was split before.

``punctuation``: a run of letters, digits and underscores is a word, and so is every other character that is no space.
Joined by spaces, but for none before ``. , ; : ! ? ) ] } % »`` and none behind ``( [ { «``.

``blanks``: as ``spaces``, but U+0020 alone separates words, as in subword-nmt: other white space is part of a word.
"""

import re

from seq2edge.tokenization import Split

WORD = re.compile(r"\w+|[^\w\s]")
LOOSE = re.compile(r" (?=[.,;:!?)\]}%»])|(?<=[(\[{«]) ")


def split_words(text: str, rule: Split) -> list[str]:
    if rule == "blanks":
        return [word for word in text.strip("\r\n ").split(" ") if word]
    return WORD.findall(text) if rule == "punctuation" else text.split()


def join_words(words: list[str], rule: Split) -> str:
    text = " ".join(words)
    return LOOSE.sub("", text) if rule == "punctuation" else text
