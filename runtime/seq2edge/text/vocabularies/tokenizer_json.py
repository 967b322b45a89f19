"""Use a ``tokenizer.json`` through the tokenizers library, such as the byte-level BPE of BART.

The file is checked before it is loaded: the library allocates tables by the largest id, and sets no time limit for
regular expressions.
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

MAX_BYTES = 2**26  # the largest files have some 20 megabytes
MAX_TOKENS = 2**22
MAX_PATTERN_LENGTH = 2000  # characters; the longest of well-known models have 300
PATTERN = "Regex"
PANIC = "PanicException"  # of a library in Rust
_CLASS = re.compile(r"\[\^?\]?(\\.|[^\]\\])*\]")
_REPEATS = re.compile(r"[*+]|\{\d*,\d*\}")


class TokenizerJsonVocabulary:
    """The vocabulary of a ``tokenizer.json``, without its special tokens, truncation and padding."""

    def __init__(self, model: Tokenizer, tokens: SpecialTokens) -> None:
        model.no_truncation()
        model.no_padding()
        self.model = model
        self.unknown_ids = {tokens.unk}
        self.size = max(model.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def encode(self, texts: list[str]) -> list[list[int]]:
        with library_errors("the vocabulary cannot tokenize this text"):
            return [encoding.ids for encoding in self.model.encode_batch(texts, add_special_tokens=False)]

    def decode(self, ids: list[int]) -> str:
        with library_errors("the vocabulary cannot decode these tokens"):
            return self.model.decode(ids, skip_special_tokens=True)

    def tokenize(self, text: str) -> list[str]:
        encoding = self._encoding(text)
        return [text[start:end] or token for (start, end), token in zip(encoding.offsets, encoding.tokens, strict=True)]

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        pairs = zip(self._encoding(text).offsets, ids, strict=True)
        return sum(len(text[start:end].strip()) for (start, end), number in pairs if number in self.unknown_ids)

    def piece(self, number: int) -> str:
        return (self.model.id_to_token(number) if 0 <= number < self.size else None) or f"<{number}>"

    def get_piece_size(self) -> int:
        return self.size

    def _encoding(self, text: str) -> Encoding:
        with library_errors("the vocabulary cannot tokenize this text"):
            return self.model.encode(text, add_special_tokens=False)


def load_tokenizer_json(path: Path, tokens: SpecialTokens) -> TokenizerJsonVocabulary:
    content = check_tokenizer_json(path)
    with library_errors(f"{path} is not a valid tokenizer.json"):
        return TokenizerJsonVocabulary(Tokenizer.from_str(content), tokens)


@contextmanager
def library_errors(message: str) -> Iterator[None]:
    """Turn exceptions of the library into ours; it has no own type, and its panics are not an Exception."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        raise DataError(f"{message} ({error})") from None


def check_tokenizer_json(path: Path) -> str:
    """Refuse a file that could exhaust memory or time in the library; otherwise return its content."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        text = raw.decode()
        _check_content(json.loads(text))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a valid tokenizer.json ({error})") from None
    return text


def _check_content(content: Any) -> None:
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise ValueError("it has no model")
    added = content.get("added_tokens") or []
    vocabulary = content["model"].get("vocab")
    if not isinstance(vocabulary, dict | list):
        raise ValueError("it has no vocabulary")
    ids = [token.get("id") for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    ids += vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    if not all(type(number) is int and 0 <= number < MAX_TOKENS for number in ids):
        raise ValueError(f"its ids must be integers from 0 to {MAX_TOKENS - 1:,}")
    for pattern in _patterns({key: value for key, value in content.items() if key != "model"}):
        if len(pattern) > MAX_PATTERN_LENGTH or has_nested_repetition(pattern):
            raise ValueError(f"its pattern {pattern[:60]!r} could take exponential time")


def _patterns(content: Any) -> Iterator[str]:
    """Yield all regular expressions, at any depth."""
    stack = [content]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if isinstance(item.get(PATTERN), str):
                yield item[PATTERN]
            stack += item.values()
        elif isinstance(item, list):
            stack += item


def has_nested_repetition(pattern: str) -> bool:
    """Return whether a repeated group contains a repetition, as in ``(a+)+``, which may take exponential time."""
    plain = _CLASS.sub("x", re.sub(r"\\[pP]\{[^}]*\}|\\.", "x", pattern))
    groups: list[bool] = []  # whether each open group contains a repetition so far
    for position, letter in enumerate(plain):
        if letter == "(":
            groups.append(False)
        elif letter == ")" and groups:
            repeats = groups.pop()
            if repeats and _REPEATS.match(plain, position + 1):
                return True
            if groups:
                groups[-1] |= repeats
        if groups and _REPEATS.match(plain, position):
            groups[-1] = True
    return False
