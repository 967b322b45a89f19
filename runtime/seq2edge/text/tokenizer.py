"""Text to ids and back with a source and a target vocabulary.

Words as the tokenizer of Moses cuts them, and text made of such words.

Its rules and lists of abbreviations are those of sacremoses, which fairseq uses too.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from seq2edge.config.languages import Tags
from seq2edge.config.tokenizer import Moses, SpecialTokens, Tokenization
from seq2edge.errors import DataError, MissingExtraError
from seq2edge.text.vocabularies import Vocabulary, load_sentencepiece, load_vocabulary
from seq2edge.text.vocabularies.sentencepiece import PieceListVocabulary

HELD_BACK = 2  # words at the end, to whose left what follows may still put or take a space
BY_THE_END = ("cs",)  # languages whose numbers are joined or not by how the whole text ends


class MosesTokenizer:
    """Text to words with a space between them, and back."""

    def __init__(self, rules: Moses, package: Any) -> None:
        self.rules = rules
        self.source = package.MosesTokenizer(rules.source_language)
        self.target = package.MosesTokenizer(rules.target_language)
        self.detokenizer = package.MosesDetokenizer(rules.target_language)

    def cut_source(self, text: str) -> str:
        return self._cut(self.source, text)

    def cut_target(self, text: str) -> str:
        return self._cut(self.target, text)

    def join(self, words: str) -> str:
        text: str = self.detokenizer.detokenize(words.split())
        return text

    def join_so_far(self, words: str) -> str:
        """As much of a text as stays when more words come."""
        if self.rules.target_language in BY_THE_END:
            return ""
        return self.join(" ".join(words.split()[:-HELD_BACK]))

    def _cut(self, tokenizer: Any, text: str) -> str:
        words: str = tokenizer.tokenize(
            text, aggressive_dash_splits=self.rules.dash_splits, return_str=True, escape=self.rules.escape
        )
        return words


def load_moses(rules: Moses) -> MosesTokenizer:
    try:
        import sacremoses
    except ModuleNotFoundError:
        raise MissingExtraError("sacremoses", "moses") from None
    return MosesTokenizer(rules, sacremoses)


NO_TAGS = Tags()
WHITE_SPACE = re.compile(r"\s+")
T = TypeVar("T")
NO_ID = -1  # in place of an id that is not looked at
BLANK = "\u115f\u1160\u2800\u3164"  # letters and signs that leave no mark on paper


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What stands around the ids of a source text: marks, and around these the tags of languages."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    pad: int = 0
    length: int = 0  # filled up with ``pad`` to this length
    tags: Tags = NO_TAGS

    @property
    def head(self) -> tuple[int, ...]:
        return (*self.tags.before, *self.before)

    @property
    def tail(self) -> tuple[int, ...]:
        return (*self.after, *self.tags.after)

    def around(self, ids: Sequence[int]) -> list[int]:
        framed = [*self.head, *ids, *self.tail]
        return framed + [self.pad] * (self.length - len(framed))

    def cut(self, framed: list[T], longest: int) -> list[T]:
        """So many of the ids of a text, or of how they are written, that still end in what stands behind."""
        kept = longest - len(self.tail)
        return framed[:kept] + framed[len(framed) - len(self.tail) :]

    def inside(self, framed: Sequence[int]) -> range:
        """The places of the text's own ids: without the marks, and without what fills up."""
        end = len(framed)
        while self.length and end > len(self.head) and framed[end - 1] == self.pad:
            end -= 1
        if tuple(framed[end - len(self.tail) : end]) == self.tail:  # not where the end mark also fills up
            end -= len(self.tail)
        return range(len(self.head), end)

    def marks(self, framed: Sequence[int]) -> set[int]:
        """The places of all other ids."""
        return set(range(len(framed))) - set(self.inside(framed))


class Tokenizer:
    """A source and a target vocabulary, which may be the same."""

    def __init__(
        self,
        source: Vocabulary,
        target: Vocabulary,
        *,
        eos: int,
        frame: Frame | None = None,
        lowercase: bool = False,
        plain_spaces: bool = False,
        moses: MosesTokenizer | None = None,
        source_prefix: str = "",
    ) -> None:
        self.source = source
        self.target = target
        self.eos = eos
        self.frame = frame or Frame(after=(eos,))
        self.lowercase = lowercase
        self.plain_spaces = plain_spaces
        self.moses = moses
        self.source_prefix = source_prefix  # before every source text

    @classmethod
    def load(cls, source: Path, target: Path, *, eos: int) -> "Tokenizer":
        """Two SentencePiece models, with the end mark behind every text."""
        return cls(load_sentencepiece(source), load_sentencepiece(target), eos=eos)

    def tagged(self, tags: Tags) -> "Tokenizer":
        """The same for texts of other languages."""
        other = copy(self)
        other.frame = replace(self.frame, tags=tags)
        return other

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Source ids of each text, with the marks that the model was trained with."""
        return [self.frame.around(ids) for ids in self.source.encode(self._prepare_source(texts))]

    def encode_or_nothing(self, texts: Sequence[str]) -> list[list[int]]:
        """The same, but no ids at all for a text that says nothing: the model would invent something."""
        pieces = self.source.encode(self._prepare_source(texts))
        said = self.source.encode(self._cut_source(texts)) if self.source_prefix else pieces  # by the text alone
        visible = [bool(ids) and any(map(_is_visible, text)) for text, ids in zip(texts, said, strict=True)]
        return [self.frame.around(ids) if seen else [] for ids, seen in zip(pieces, visible, strict=True)]

    def encode_target(self, texts: Sequence[str]) -> list[list[int]]:
        """Target ids of each text, with the end mark."""
        return [[*ids, self.eos] for ids in self.target.encode(self._cut_target(texts))]

    def encode_prefix(self, text: str) -> list[int]:
        """Target ids that an output has to begin with."""
        return self.target.encode(self._cut_target([text]))[0]

    def unknown_characters(self, text: str, ids: Sequence[int]) -> int:
        """How many characters of a source text have no token; ``ids`` are those of ``encode``, or the first of them."""
        if self.source.odd.isdisjoint(ids):
            return 0
        [prepared] = self._prepare_source([text])
        [every] = self.source.encode([prepared])
        kept = len(self.frame.inside(ids))
        return self.source.unknown_characters(prepared, every[:kept] + [NO_ID] * (len(every) - kept))

    def spell_source(self, text: str) -> list[str]:
        """How each of a text's source ids is written, marks included."""
        [prepared] = self._prepare_source([text])
        before, after = ([self.source.piece(mark) for mark in marks] for marks in (self.frame.head, self.frame.tail))
        framed = [*before, *self.source.spell(prepared), *after]
        return framed + [self.source.piece(self.frame.pad)] * (self.frame.length - len(framed))

    def split_tag(self, text: str) -> tuple[str, str]:
        """The tag of a language that a text itself begins with, if the vocabulary has such, and the text behind it."""
        return self.source.split_tag(text) if isinstance(self.source, PieceListVocabulary) else ("", text)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of target ids; control ids, and ids without a piece, say nothing."""
        texts = [self._spelt(row) for row in ids]
        return [self.moses.join(text) for text in texts] if self.moses else texts

    def decode_so_far(self, ids: Sequence[int]) -> str:
        """The text of target ids of which there will be more."""
        text = self._spelt(ids)
        return self.moses.join_so_far(text) if self.moses else text

    def with_source_prefix(self, prefix: str | None) -> "Tokenizer":
        """The same with other text before every source; None leaves it as it is."""
        if prefix is None or prefix == self.source_prefix:
            return self
        changed = copy(self)
        changed.source_prefix = prefix
        return changed

    def _spelt(self, ids: Sequence[int]) -> str:
        size = self.target.get_piece_size()
        return self.target.decode([number for number in ids if 0 <= number < size])

    def _prepare_source(self, texts: Sequence[str]) -> list[str]:
        return [self.source_prefix + text for text in self._cut_source(texts)]

    def _cut_source(self, texts: Sequence[str]) -> list[str]:
        return [self.moses.cut_source(text) if self.moses else text for text in self._prepare(texts)]

    def _cut_target(self, texts: Sequence[str]) -> list[str]:
        return [self.moses.cut_target(text) if self.moses else text for text in self._prepare(texts)]

    def _prepare(self, texts: Sequence[str]) -> list[str]:
        for text in texts:
            _check(text)
        lowered = [text.lower() if self.lowercase else text for text in texts]
        return [WHITE_SPACE.sub(" ", text) for text in lowered] if self.plain_spaces else lowered


def load_tokenizer(rules: Tokenization, tokens: SpecialTokens, files: Mapping[str, Path]) -> Tokenizer:
    """The tokenizer that a manifest describes; ``files`` says where the files of its names are."""
    frame = Frame(
        before=(tokens.bos,) if rules.source_bos else (),
        after=(tokens.eos,) if rules.source_eos else (),
        pad=tokens.pad,
        length=rules.source_length,
    )
    source, target = (
        load_vocabulary(rules, tokens, files[name], files[codes] if codes else None)
        for name, codes in ((rules.source, rules.source_codes), (rules.target, rules.target_codes))
    )
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


def _is_visible(character: str) -> bool:
    """Whether it says something alone: no space, no control or format character, no accent without its letter."""
    return not (character.isspace() or unicodedata.category(character)[0] in "CM" or character in BLANK)


def _check(text: str) -> None:
    """Refuse half a character, which a str can hold and which no text has; SentencePiece would fail without a word."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"the text {text[:60]!a} is not Unicode: it has the lone surrogate U+{ord(text[error.start]):04X} at "
            f"character {error.start + 1}, which mostly comes from bytes that are not UTF-8"
        ) from None
