"""A vocabulary file: a token a line, or JSON.

Lines: the first line has id 0. JSON: an object from token to id, or an array in the order of ids.

What counts as a word, and how words become a text again.

``spaces``: whatever stands between spaces is a word, and words are joined by spaces. For text that was split before.

``punctuation``: a run of letters, digits and underscores is a word, and so is every other character that is no space.
Joined by spaces, but for none before ``. , ; : ! ? ) ] } % »`` and none behind ``( [ { «``.

``blanks``: as ``spaces``, but U+0020 alone separates words, as in subword-nmt: other white space is part of a word.

Every character is a token.

Every word is a token.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from seq2edge.config.tokenizer import SpecialTokens, Split
from seq2edge.errors import DataError


class TokenList:
    """Tokens and their ids; padding, start, end and silent marks are neither read from a text nor written to one."""

    def __init__(self, ids: dict[str, int], tokens: SpecialTokens, silent: tuple[int, ...] = ()) -> None:
        self.size = max(ids.values()) + 1
        self.unk = tokens.unk
        marks = {tokens.pad, tokens.bos, tokens.eos, *silent}
        self.marks = {number: token for token, number in ids.items() if number in marks}
        self.ids = {token: number for token, number in ids.items() if number not in marks}
        self.tokens = {number: token for token, number in self.ids.items()}

    def look_up(self, tokens: Iterable[str]) -> list[int]:
        return [self.ids.get(token, self.unk) for token in tokens]

    def unknown_characters(self, spelt: Iterable[str], ids: Iterable[int]) -> int:
        return sum(len(token) for token, number in zip(spelt, ids, strict=True) if number == self.unk)

    def piece(self, number: int) -> str:
        return self.tokens.get(number) or self.marks.get(number) or f"<{number}>"

    def spell(self, ids: Iterable[int]) -> list[str]:
        return [self.tokens[number] for number in ids if number in self.tokens]


def read_token_list(path: Path, tokens: SpecialTokens) -> TokenList:
    return TokenList(read_ids(path), tokens)


def read_ids(path: Path) -> dict[str, int]:
    """The id of every token, marks included."""
    try:
        text = path.read_text(encoding="utf-8")
        return _from_json(json.loads(text)) if path.suffix == ".json" else _from_lines(text)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a vocabulary ({error})") from None


def _from_lines(text: str) -> dict[str, int]:
    return _numbered(text.removesuffix("\n").split("\n"))  # not splitlines: a token may be another kind of line end


def _from_json(content: Any) -> dict[str, int]:
    if isinstance(content, list) and all(isinstance(token, str) for token in content):
        return _numbered(content)
    if not isinstance(content, dict) or not all(type(number) is int and number >= 0 for number in content.values()):
        raise ValueError("the JSON should be an array of tokens, or an object from token to id")
    if not content or len(set(content.values())) < len(content):
        raise ValueError("every token should have an id of its own")
    return content


def _numbered(tokens: list[str]) -> dict[str, int]:
    ids: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if token in ids:
            raise ValueError(f"{token!r} stands in it twice, as id {ids[token]} and {number}")
        ids[token] = number
    if not ids:
        raise ValueError("it is empty")
    return ids


WORD = re.compile(r"\w+|[^\w\s]")
LOOSE = re.compile(r" (?=[.,;:!?)\]}%»])|(?<=[(\[{«]) ")


def split_words(text: str, rule: Split) -> list[str]:
    if rule == "blanks":
        return [word for word in text.strip("\r\n ").split(" ") if word]
    return WORD.findall(text) if rule == "punctuation" else text.split()


def join_words(words: list[str], rule: Split) -> str:
    text = " ".join(words)
    return LOOSE.sub("", text) if rule == "punctuation" else text


class CharacterVocabulary:
    """A text is its Unicode code points, spaces among them."""

    def __init__(self, known: TokenList) -> None:
        self.known = known
        self.odd = {known.unk}

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [self.known.look_up(text) for text in texts]

    def decode(self, ids: list[int]) -> str:
        return "".join(self.known.spell(ids))

    def spell(self, text: str) -> list[str]:
        return list(text)

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        return self.known.unknown_characters(self.spell(text), ids)

    def piece(self, number: int) -> str:
        return self.known.piece(number)

    def get_piece_size(self) -> int:
        return self.known.size


def load_characters(file: Path, tokens: SpecialTokens) -> CharacterVocabulary:
    return CharacterVocabulary(read_token_list(file, tokens))


class WordVocabulary:
    """A text is its words, by one of the rules for splitting."""

    def __init__(self, known: TokenList, split: Split) -> None:
        self.known = known
        self.odd = {known.unk}
        self.split = split

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [self.known.look_up(split_words(text, self.split)) for text in texts]

    def decode(self, ids: list[int]) -> str:
        return join_words(self.known.spell(ids), self.split)

    def spell(self, text: str) -> list[str]:
        return split_words(text, self.split)

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        return self.known.unknown_characters(self.spell(text), ids)

    def piece(self, number: int) -> str:
        return self.known.piece(number)

    def get_piece_size(self) -> int:
        return self.known.size


def load_words(file: Path, tokens: SpecialTokens, split: Split) -> WordVocabulary:
    return WordVocabulary(read_token_list(file, tokens), split)
