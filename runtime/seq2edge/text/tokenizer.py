"""Convert text to token ids and back, with a source and a target vocabulary.

Where a model needs it, sacremoses tokenizes the text into words first, with the rules that fairseq uses too.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from seq2edge.bundle.bundle import Bundle
from seq2edge.config.languages import Tags, default_tags
from seq2edge.config.tokenizer import Moses, SpecialTokens, Tokenization
from seq2edge.errors import DataError, imports_of_extras
from seq2edge.text.vocabularies import Vocabulary, load_sentencepiece, load_vocabulary
from seq2edge.text.vocabularies.sentencepiece import PieceListVocabulary

T = TypeVar("T")
NO_TAGS = Tags()
NO_ID = -1  # placeholder for the id of a token that was cut off
WHITESPACE = re.compile(r"\s+")
BLANK = "\u115f\u1160\u2800\u3164"  # letters and symbols without a visible glyph
UNSTABLE_WORDS = 2  # at the end of a partial text: the next words may change the spaces before them
UNSTABLE_LANGUAGES = ("cs",)  # Moses joins their numbers depending on the end of the whole text


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The special tokens around the ids of a source text, and outside these the language tags."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    pad: int = 0
    length: int = 0  # padded with ``pad`` to this length
    tags: Tags = NO_TAGS

    @property
    def head(self) -> tuple[int, ...]:
        return (*self.tags.before, *self.before)

    @property
    def tail(self) -> tuple[int, ...]:
        return (*self.after, *self.tags.after)

    def wrap(self, ids: Sequence[int]) -> list[int]:
        framed = [*self.head, *ids, *self.tail]
        return framed + [self.pad] * (self.length - len(framed))

    def truncate(self, framed: list[T], max_tokens: int) -> list[T]:
        """Remove tokens (or ids) from the end of the text, but keep the tail."""
        kept = max_tokens - len(self.tail)
        return framed[:kept] + framed[len(framed) - len(self.tail) :]

    def text_positions(self, framed: Sequence[int]) -> range:
        """Return the positions of the ids of the text, without special tokens and padding."""
        end = len(framed)
        while self.length and end > len(self.head) and framed[end - 1] == self.pad:
            end -= 1
        if tuple(framed[end - len(self.tail) : end]) == self.tail:  # false if the end token is also the padding
            end -= len(self.tail)
        return range(len(self.head), end)

    def special_positions(self, framed: Sequence[int]) -> set[int]:
        """Return the positions of all other ids."""
        return set(range(len(framed))) - set(self.text_positions(framed))


class Tokenizer:
    """A source and a target vocabulary, which may be the same, and the text processing around them."""

    def __init__(
        self,
        source: Vocabulary,
        target: Vocabulary,
        *,
        eos: int,
        frame: Frame | None = None,
        lowercase: bool = False,
        plain_spaces: bool = False,
        moses: "MosesTokenizer | None" = None,
        source_prefix: str = "",
    ) -> None:
        self.source = source
        self.target = target
        self.eos = eos
        self.frame = frame or Frame(after=(eos,))
        self.lowercase = lowercase
        self.plain_spaces = plain_spaces
        self.moses = moses
        self.source_prefix = source_prefix  # put before every source text

    @classmethod
    def load(cls, source: Path, target: Path, *, eos: int) -> "Tokenizer":
        """Load two SentencePiece models; every text ends with the end token."""
        return cls(load_sentencepiece(source), load_sentencepiece(target), eos=eos)

    def with_tags(self, tags: Tags) -> "Tokenizer":
        """Return a copy for other languages."""
        if tags == self.frame.tags:
            return self
        changed = copy(self)
        changed.frame = replace(self.frame, tags=tags)
        return changed

    def with_source_prefix(self, prefix: str | None) -> "Tokenizer":
        """Return a copy with another source prefix; None keeps the current one."""
        if prefix is None or prefix == self.source_prefix:
            return self
        changed = copy(self)
        changed.source_prefix = prefix
        return changed

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the source ids of each text, with special tokens."""
        return [self.frame.wrap(ids) for ids in self.source.encode(self._prepare_source(texts))]

    def encode_visible(self, texts: Sequence[str]) -> list[list[int]]:
        """Do the same, but return no ids for a text without visible characters, where the model would invent output."""
        encoded = self.source.encode(self._prepare_source(texts))
        without_prefix = self.source.encode(self._split_source(texts)) if self.source_prefix else encoded
        visible = [bool(ids) and any(map(_is_visible, text)) for text, ids in zip(texts, without_prefix, strict=True)]
        return [self.frame.wrap(ids) if shown else [] for ids, shown in zip(encoded, visible, strict=True)]

    def encode_target(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the target ids of each text, with the end token."""
        return [[*ids, self.eos] for ids in self.target.encode(self._split_target(texts))]

    def encode_prefix(self, text: str) -> list[int]:
        """Return the target ids of a text that an output has to start with."""
        return self.target.encode(self._split_target([text]))[0]

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        """Count the characters of a source text without a token; ``ids`` come from ``encode``, and may be truncated."""
        if self.source.unknown_ids.isdisjoint(ids):
            return 0
        [prepared] = self._prepare_source([text])
        [every] = self.source.encode([prepared])
        kept = len(self.frame.text_positions(ids))
        return self.source.unknown_characters(prepared, every[:kept] + [NO_ID] * (len(every) - kept))

    def tokenize_source(self, text: str) -> list[str]:
        """Return the token of each source id of a text, including special tokens."""
        [prepared] = self._prepare_source([text])
        head, tail = ([self.source.piece(token) for token in ids] for ids in (self.frame.head, self.frame.tail))
        framed = [*head, *self.source.tokenize(prepared), *tail]
        return framed + [self.source.piece(self.frame.pad)] * (self.frame.length - len(framed))

    def split_tag(self, text: str) -> tuple[str, str]:
        """Split off a language tag at the start of a text, if the vocabulary has such tags."""
        return self.source.split_tag(text) if isinstance(self.source, PieceListVocabulary) else ("", text)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each sequence of target ids, without special tokens and ids without a token."""
        texts = [self._decode(row) for row in ids]
        return [self.moses.detokenize(text) for text in texts] if self.moses else texts

    def decode_partial(self, ids: Sequence[int]) -> str:
        """Return the text of target ids that are not complete yet, as far as more ids cannot change it."""
        text = self._decode(ids)
        return self.moses.detokenize_partial(text) if self.moses else text

    def _decode(self, ids: Sequence[int]) -> str:
        size = self.target.get_piece_size()
        return self.target.decode([number for number in ids if 0 <= number < size])

    def _prepare_source(self, texts: Sequence[str]) -> list[str]:
        return [self.source_prefix + text for text in self._split_source(texts)]

    def _split_source(self, texts: Sequence[str]) -> list[str]:
        return [self.moses.tokenize_source(text) if self.moses else text for text in self._normalize(texts)]

    def _split_target(self, texts: Sequence[str]) -> list[str]:
        return [self.moses.tokenize_target(text) if self.moses else text for text in self._normalize(texts)]

    def _normalize(self, texts: Sequence[str]) -> list[str]:
        for text in texts:
            _check_unicode(text)
        lowered = [text.lower() if self.lowercase else text for text in texts]
        return [WHITESPACE.sub(" ", text) for text in lowered] if self.plain_spaces else lowered


def bundle_tokenizer(bundle: Bundle) -> Tokenizer:
    """Load the tokenizer of a bundle, for its default languages."""
    manifest = bundle.manifest
    files = {name: bundle.folder / name for name in manifest.tokenizer.files}
    tokenizer = load_tokenizer(manifest.tokenizer, manifest.tokens, files)
    return tokenizer.with_tags(default_tags(manifest.languages))


def load_tokenizer(rules: Tokenization, tokens: SpecialTokens, files: Mapping[str, Path]) -> Tokenizer:
    """Load the tokenizer that a manifest describes; ``files`` maps file names to paths."""
    frame = Frame(
        before=(tokens.bos,) if rules.source_bos else (),
        after=(tokens.eos,) if rules.source_eos else (),
        pad=tokens.pad,
        length=rules.source_length,
    )
    source_tokens = tokens if tokens.source_unk is None else replace(tokens, unk=tokens.source_unk)
    sides = ((rules.source, rules.source_codes, source_tokens), (rules.target, rules.target_codes, tokens))
    loaded = {  # a vocabulary that both sides share is loaded once
        side: load_vocabulary(rules, side[2], files[side[0]], files[side[1]] if side[1] else None)
        for side in dict.fromkeys(sides)
    }
    source, target = (loaded[side] for side in sides)
    return Tokenizer(
        source,
        target,
        eos=tokens.eos,
        frame=frame,
        lowercase=rules.lowercase,
        plain_spaces=rules.plain_spaces,
        moses=load_moses(rules.moses) if rules.moses else None,
        source_prefix=rules.source_prefix,
    )


class MosesTokenizer:
    """Split a text into words separated by spaces, and join them again."""

    def __init__(self, rules: Moses, package: Any) -> None:
        self.rules = rules
        self.source = package.MosesTokenizer(rules.source_language)
        self.target = package.MosesTokenizer(rules.target_language)
        self.detokenizer = package.MosesDetokenizer(rules.target_language)

    def tokenize_source(self, text: str) -> str:
        return self._tokenize(self.source, text)

    def tokenize_target(self, text: str) -> str:
        return self._tokenize(self.target, text)

    def detokenize(self, words: str) -> str:
        text: str = self.detokenizer.detokenize(words.split())
        return text

    def detokenize_partial(self, words: str) -> str:
        """Return the part of the text that more words cannot change."""
        if self.rules.target_language in UNSTABLE_LANGUAGES:
            return ""
        return self.detokenize(" ".join(words.split()[:-UNSTABLE_WORDS]))

    def _tokenize(self, tokenizer: Any, text: str) -> str:
        words: str = tokenizer.tokenize(
            text, aggressive_dash_splits=self.rules.dash_splits, return_str=True, escape=self.rules.escape
        )
        return words


def load_moses(rules: Moses) -> MosesTokenizer:
    with imports_of_extras():
        import sacremoses
    return MosesTokenizer(rules, sacremoses)


def _is_visible(character: str) -> bool:
    """Return whether a character is visible alone: no space, control or format character, or combining mark."""
    return not (character.isspace() or unicodedata.category(character)[0] in "CM" or character in BLANK)


def _check_unicode(text: str) -> None:
    """Refuse lone surrogates, which a str can hold; SentencePiece would fail without a message."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"the text {text[:60]!a} is not valid Unicode: it has the lone surrogate U+{ord(text[error.start]):04X} at "
            f"character {error.start + 1}, probably because it was read from bytes that are not UTF-8"
        ) from None
