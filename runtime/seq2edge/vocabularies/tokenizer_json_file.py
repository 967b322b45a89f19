"""Look through a ``tokenizer.json`` before its library sees it; needs nothing.

The library takes any id for the length of a table, and lets a pattern take as long as it likes.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
