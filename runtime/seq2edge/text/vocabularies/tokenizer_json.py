"""A ``tokenizer.json`` as the tokenizers library runs it, such as the byte-level BPE of BART.

Look through a ``tokenizer.json`` before its library sees it.

The library takes any id for the length of a table, and lets a pattern take as long as it likes.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Encoding, Tokenizer

from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import DataError

MOST_BYTES = 2**26  # the largest have some 20 megabytes
MOST_TOKENS = 2**22
LONGEST_PATTERN = 2000  # characters; the longest of well-known models have 300
PATTERN = "Regex"
_CLASS = re.compile(r"\[\^?\]?(\\.|[^\]\\])*\]")
_REPEATS = re.compile(r"[*+]|\{\d*,\d*\}")


def check_tokenizer_json(path: Path) -> str:
    """Refuse a file that could take the library too far; else, what it holds."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
        text = raw.decode()
        _check(json.loads(text))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a tokenizer.json that can be read ({error})") from None
    return text


def _check(content: Any) -> None:
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise ValueError("it describes no model")
    added = content.get("added_tokens") or []
    vocabulary = content["model"].get("vocab")
    if not isinstance(vocabulary, dict | list):
        raise ValueError("it has no vocabulary")
    ids = [token.get("id") for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    ids += vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    if not all(type(number) is int and 0 <= number < MOST_TOKENS for number in ids):
        raise ValueError(f"it has ids that are no whole numbers from 0 to {MOST_TOKENS - 1:,}")
    for pattern in _patterns({key: value for key, value in content.items() if key != "model"}):
        if len(pattern) > LONGEST_PATTERN or repeats_repetitions(pattern):
            raise ValueError(f"its pattern {pattern[:60]!r} could take for ever")


def _patterns(content: Any) -> Iterator[str]:
    """All regular expressions, at any depth."""
    waiting = [content]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if isinstance(one.get(PATTERN), str):
                yield one[PATTERN]
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def repeats_repetitions(pattern: str) -> bool:
    """Whether a group that repeats something is itself repeated, as in ``(a+)+``, which may take for ever."""
    plain = _CLASS.sub("x", re.sub(r"\\[pP]\{[^}]*\}|\\.", "x", pattern))
    groups: list[bool] = []  # whether each open group has repeated something so far
    place = 0
    while place < len(plain):
        letter = plain[place]
        if letter == "(":
            groups.append(False)
        elif letter == ")" and groups:
            repeats = groups.pop()
            if repeats and _REPEATS.match(plain, place + 1):
                return True
            if groups:
                groups[-1] |= repeats
        if groups and _REPEATS.match(plain, place):
            groups[-1] = True
        place += 1
    return False


PANIC = "PanicException"  # of a library in Rust


class TokenizerJsonVocabulary:
    """A text is what the file says, all but what it would put around the text."""

    def __init__(self, model: Tokenizer, tokens: SpecialTokens) -> None:
        model.no_truncation()
        model.no_padding()
        self.model = model
        self.odd = {tokens.unk}
        self.size = max(model.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def encode(self, texts: list[str]) -> list[list[int]]:
        with refusals("the vocabulary cannot cut this text"):
            return [encoding.ids for encoding in self.model.encode_batch(texts, add_special_tokens=False)]

    def decode(self, ids: list[int]) -> str:
        with refusals("the vocabulary cannot write these tokens"):
            return self.model.decode(ids, skip_special_tokens=True)

    def spell(self, text: str) -> list[str]:
        encoding = self._encoding(text)
        return [text[start:end] or token for (start, end), token in zip(encoding.offsets, encoding.tokens, strict=True)]

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        places = zip(self._encoding(text).offsets, ids, strict=True)
        return sum(len(text[start:end].strip()) for (start, end), number in places if number in self.odd)

    def piece(self, number: int) -> str:
        return (self.model.id_to_token(number) if 0 <= number < self.size else None) or f"<{number}>"

    def get_piece_size(self) -> int:
        return self.size

    def _encoding(self, text: str) -> Encoding:
        with refusals("the vocabulary cannot cut this text"):
            return self.model.encode(text, add_special_tokens=False)


def load_tokenizer_json(path: Path, tokens: SpecialTokens) -> TokenizerJsonVocabulary:
    content = check_tokenizer_json(path)
    with refusals(f"{path} is not a tokenizer.json that can be read"):
        return TokenizerJsonVocabulary(Tokenizer.from_str(content), tokens)


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Whatever the library raises as an error of ours; it has no type of its own, and its panics are no Exception."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        raise DataError(f"{what} ({error})") from None
