"""A vocabulary file: a token a line, or JSON; needs nothing.

Lines: the first line has id 0. JSON: an object from token to id, or an array in the order of ids.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from seq2edge.errors import DataError
from seq2edge.tokens import SpecialTokens


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
