"""Use a ``tokenizer.json`` through the tokenizers library, such as the byte-level BPE of BART.

The file is checked before it is loaded: the library allocates tables by the largest id, sets no time limit for regular
expressions, and lets every component of a chain make a text longer.
"""

import base64
import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Encoding, Tokenizer

from seq2edge.config.tokenizer import SpecialTokens
from seq2edge.errors import DataError
from seq2edge.text.vocabularies.limits import check_expansion, check_piece_lengths, check_tables

MAX_BYTES = 2**26  # the largest files have some 20 megabytes
MAX_TOKENS = 2**22
MAX_PATTERN_LENGTH = 2000  # characters; the longest of well-known models have 300
MAX_COMPONENTS = 32  # of a chain; well-known models have five
MAX_AFFIX_LENGTH, MAX_WORD_LENGTH = 64, 500  # characters, of which the library builds every part of a word
PATTERN = "Regex"
CHAINS = {  # where the components of a sequence are, by role
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
# Components that do not make a text longer, or only as far as Unicode does, whatever their settings.
_NEUTRAL = """
Sequence Strip StripAccents Lowercase NFC NFD NFKC NFKD Nmt BertNormalizer BertPreTokenizer CharDelimiterSplit
Whitespace WhitespaceSplit Split Punctuation Digits UnicodeScripts FixedLength BertProcessing RobertaProcessing
ByteFallback Fuse
"""
NEUTRAL = frozenset(_NEUTRAL.split())
REMOVED_TEXTS = {"BPEDecoder": "suffix", "CTC": "word_delimiter_token"}  # which a decoder replaces by a space
BYTES_PER_CHARACTER = 4  # at most, each of which byte-level components write as a character
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
        _check_content(json.loads(text, object_pairs_hook=_unique_keys))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a valid tokenizer.json ({error})") from None
    return text


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object with two equal keys, of which the library might use the other one."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("an object in it has the same key twice")
    return content


def _check_content(content: Any) -> None:
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise ValueError("it has no model")
    _check_model(content["model"], content.get("added_tokens") or [])
    for pattern in _patterns({key: value for key, value in content.items() if key != "model"}):
        if len(pattern) > MAX_PATTERN_LENGTH or has_nested_repetition(pattern):
            raise ValueError(f"its pattern {pattern[:60]!r} could take exponential time")
    factors = {role: math.prod(_expansions(content.get(role), role)) for role in CHAINS}
    decoder = factors.pop("decoder")
    check_expansion(math.prod(factors.values()), "normalizers, pre-tokenizers and post-processors")
    check_expansion(decoder, "decoders")


def _check_model(model: dict[str, Any], added: Any) -> None:
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict | list):
        raise ValueError("it has no vocabulary")
    tokens = [token for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    ids = [token.get("id") for token in tokens]
    ids += vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    if not all(type(number) is int and 0 <= number < MAX_TOKENS for number in ids):
        raise ValueError(f"its ids must be integers from 0 to {MAX_TOKENS - 1:,}")
    check_piece_lengths(len(str(token.get("content"))) for token in tokens)
    pieces = (
        vocabulary
        if isinstance(vocabulary, dict)
        else (str(entry[:1]) for entry in vocabulary if isinstance(entry, list))
    )
    check_piece_lengths(map(len, pieces))
    affixes = [str(model.get(name) or "") for name in ("continuing_subword_prefix", "end_of_word_suffix")]
    longest = model.get("max_input_chars_per_word")
    if max(map(len, affixes)) > MAX_AFFIX_LENGTH or (isinstance(longest, int) and longest > MAX_WORD_LENGTH):
        raise ValueError(
            f"its model has an affix of more than {MAX_AFFIX_LENGTH} characters, or max_input_chars_per_word above "
            f"{MAX_WORD_LENGTH}"
        )


def _expansions(component: Any, role: str) -> list[int]:
    """Return, for each component of a chain, how many characters it can make of one."""
    found: list[int] = []
    stack = [] if component is None else [component]
    while stack:
        one = stack.pop()
        if len(found) >= MAX_COMPONENTS:
            raise ValueError(f"its {role} has more than {MAX_COMPONENTS} components")
        if not isinstance(one, dict) or not isinstance(one.get("type"), str):
            raise ValueError(f"its {role} has a component without a type")
        inner = one.get(CHAINS[role]) if one["type"] == "Sequence" else []
        if not isinstance(inner, list):
            raise ValueError(f"its {role} has a sequence without components")
        stack += inner
        found.append(_expansion(one, role))
    return found


def _expansion(component: dict[str, Any], role: str) -> int:
    """Return how many characters a component can make of one; one that is not known here is refused."""
    kind = component["type"]
    if kind == "Replace":
        return _replacement(component.get("pattern"), component.get("content"))
    if kind == "Precompiled":
        tables = base64.b64decode(str(component.get("precompiled_charsmap") or ""), validate=True)
        return check_tables(tables) if tables else 1
    if kind == "ByteLevel":
        return BYTES_PER_CHARACTER if role in ("normalizer", "pre_tokenizer") else 1
    if kind == "Prepend":
        return 1 + len(str(component.get("prepend")))
    if kind == "TemplateProcessing":
        return _copies(component.get("single"))
    if kind in ("Metaspace", "WordPiece"):
        return 2 if role != "decoder" or kind == "WordPiece" else 1
    if kind in REMOVED_TEXTS:  # an empty text is found between any two characters
        return 1 if component.get(REMOVED_TEXTS[kind]) else 2
    if kind not in NEUTRAL:
        raise ValueError(f"its {role} has a component {kind[:60]!r}, which is not known")
    return 1


def _replacement(pattern: Any, content: Any) -> int:
    if not isinstance(pattern, dict) or not isinstance(content, str):
        raise ValueError("it has a replacement without a pattern or without a text")
    text = pattern.get("String")
    if isinstance(text, str) and text and PATTERN not in pattern:
        return max(1, math.ceil(len(content) / len(text)))
    return 1 + len(content)  # an expression may find nothing, between any two characters


def _copies(template: Any) -> int:
    if not isinstance(template, list):
        raise ValueError("its template is not a list")
    return max(1, sum(not isinstance(piece, dict) or set(piece) != {"SpecialToken"} for piece in template))


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
