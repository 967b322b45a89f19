"""Vocabularies that are a plain list of tokens: words or characters.

A vocabulary file has one token per line, the first with id 0, or is JSON: an object from token to id, or an array.

Words are split by one of three rules:

- ``spaces``: at whitespace, and joined with spaces. For text that was tokenized before.
- ``punctuation``: a run of letters, digits and underscores is a word, and so is every other character except spaces.
  Joined with spaces, except before ``. , ; : ! ? ) ] } % »`` and after ``( [ { «``.
- ``blanks``: like ``spaces``, but only U+0020 separates words, as in subword-nmt.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from seq2edge.config.tokenizer import SpecialTokens, Split
from seq2edge.errors import DataError

WORD = re.compile(r"\w+|[^\w\s]")
SUPERFLUOUS_SPACE = re.compile(r" (?=[.,;:!?)\]}%»])|(?<=[(\[{«]) ")


class TokenListVocabulary(ABC):
    """Base of vocabularies that are a list of tokens; subclasses split a text into tokens and join them."""

    def __init__(self, token_list: "TokenList") -> None:
        self.token_list = token_list
        self.unknown_ids = {token_list.unk}

    @abstractmethod
    def tokenize(self, text: str) -> list[str]: ...

    @abstractmethod
    def decode(self, ids: list[int]) -> str: ...

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [self.token_list.ids_of(self.tokenize(text)) for text in texts]

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        return self.token_list.unknown_characters(self.tokenize(text), ids)

    def piece(self, number: int) -> str:
        return self.token_list.piece(number)

    def get_piece_size(self) -> int:
        return self.token_list.size


class WordVocabulary(TokenListVocabulary):
    """A word-level vocabulary: every word is a token."""

    def __init__(self, token_list: "TokenList", split: Split) -> None:
        super().__init__(token_list)
        self.split = split

    def tokenize(self, text: str) -> list[str]:
        return split_words(text, self.split)

    def decode(self, ids: list[int]) -> str:
        return join_words(self.token_list.tokens_of(ids), self.split)


class CharacterVocabulary(TokenListVocabulary):
    """A character-level vocabulary: every Unicode code point is a token, including spaces."""

    def tokenize(self, text: str) -> list[str]:
        return list(text)

    def decode(self, ids: list[int]) -> str:
        return "".join(self.token_list.tokens_of(ids))


def load_words(file: Path, tokens: SpecialTokens, split: Split) -> WordVocabulary:
    return WordVocabulary(read_token_list(file, tokens), split)


def load_characters(file: Path, tokens: SpecialTokens) -> CharacterVocabulary:
    return CharacterVocabulary(read_token_list(file, tokens))


def split_words(text: str, rule: Split) -> list[str]:
    if rule == "blanks":
        return [word for word in text.strip("\r\n ").split(" ") if word]
    return WORD.findall(text) if rule == "punctuation" else text.split()


def join_words(words: list[str], rule: Split) -> str:
    text = " ".join(words)
    return SUPERFLUOUS_SPACE.sub("", text) if rule == "punctuation" else text


class TokenList:
    """Tokens and their ids; padding, start, end and ``silent`` tokens are never read from a text or written to one."""

    def __init__(self, ids: dict[str, int], tokens: SpecialTokens, silent: tuple[int, ...] = ()) -> None:
        self.size = max(ids.values()) + 1
        self.unk = tokens.unk
        special = {tokens.pad, tokens.bos, tokens.eos, *silent}
        self.special = {number: token for token, number in ids.items() if number in special}
        self.ids = {token: number for token, number in ids.items() if number not in special}
        self.tokens = {number: token for token, number in self.ids.items()}

    def ids_of(self, tokens: Iterable[str]) -> list[int]:
        return [self.ids.get(token, self.unk) for token in tokens]

    def unknown_characters(self, tokens: Iterable[str], ids: Iterable[int]) -> int:
        return sum(len(token) for token, number in zip(tokens, ids, strict=True) if number == self.unk)

    def piece(self, number: int) -> str:
        return self.tokens.get(number) or self.special.get(number) or f"<{number}>"

    def tokens_of(self, ids: Iterable[int]) -> list[str]:
        return [self.tokens[number] for number in ids if number in self.tokens]


def read_token_list(path: Path, tokens: SpecialTokens) -> TokenList:
    return TokenList(read_ids(path), tokens)


def read_ids(path: Path) -> dict[str, int]:
    """Return the id of every token, including special tokens."""
    from seq2edge.text.vocabularies.limits import check_piece_lengths  # SentencePiece models have no list to read

    try:
        text = path.read_text(encoding="utf-8")
        ids = _from_json(json.loads(text)) if path.suffix == ".json" else _from_lines(text)
        check_piece_lengths(map(len, ids))
        return ids
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a vocabulary ({error})") from None


def _from_lines(text: str) -> dict[str, int]:
    return _enumerate(text.removesuffix("\n").split("\n"))  # not splitlines: other line ends may be tokens


def _from_json(content: Any) -> dict[str, int]:
    if isinstance(content, list) and all(isinstance(token, str) for token in content):
        return _enumerate(content)
    if not isinstance(content, dict) or not all(type(number) is int and number >= 0 for number in content.values()):
        raise ValueError("the JSON should be an array of tokens, or an object from token to id")
    if not content or len(set(content.values())) < len(content):
        raise ValueError("every token should have a unique id")
    return content


def _enumerate(tokens: list[str]) -> dict[str, int]:
    ids: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if token in ids:
            raise ValueError(f"{token!r} occurs twice, with the ids {ids[token]} and {number}")
        ids[token] = number
    if not ids:
        raise ValueError("it is empty")
    return ids
