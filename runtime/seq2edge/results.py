"""The results of translating and scoring."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2edge.scoring.attention import Attention, Pairs


@dataclass(frozen=True, kw_only=True)
class Translation:
    """The translation of one text, with scores and possible problems."""

    text: str
    tokens: tuple[int, ...] = ()  # with target prefix and end token; those of all segments if the text was split
    score: float = 0.0  # beam search: as sequences_scores of Hugging Face; otherwise the sum of the log-probabilities
    token_scores: tuple[float, ...] = ()  # log-probabilities of the tokens, without those of the prefix
    ended: bool = True  # False: cut at the length limit
    repeats: bool = False  # True: it is stuck in a loop
    sentences: int = 1  # number of sentences that were translated one by one (option split)
    parts: int = 1  # number of segments; more than sentences if one was too long for the model
    truncated: bool = False  # True: the end of the text was cut off (option long="truncate")
    unknown: int = 0  # number of characters of the text that the vocabulary lacks
    missing: int = 0  # number of alternatives that were requested but do not exist
    attention: "Attention | None" = None  # only with the option attention
    alternatives: tuple["Translation", ...] = ()  # the next best ones, with num_return_sequences

    def __str__(self) -> str:
        return self.text

    @property
    def notes(self) -> tuple[str, ...]:
        """The number of sentences if there are several, and possible problems, as phrases for display."""
        return tuple(
            note
            for note, applies in (
                (f"has {self.sentences} sentences", self.sentences > 1),
                (f"was too long and was split into {self.parts} parts", self.parts > self.sentences),
                ("was too long and lost its end", self.truncated),
                (f"has {_characters(self.unknown)} unknown to the model", self.unknown),
                ("was cut at the length limit", not self.ended),
                ("repeats itself", self.repeats),
                (f"has {self.missing} fewer alternatives than requested", self.missing),
            )
            if applies
        )

    @property
    def alignment(self) -> "Pairs | None":
        """Pairs of (source, target) positions of aligned tokens; None without the option attention."""
        return None if self.attention is None else self.attention.alignment

    def without_attention(self) -> "Translation":
        alternatives = tuple(alternative.without_attention() for alternative in self.alternatives)
        return replace(self, attention=None, alternatives=alternatives)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without results that were not requested."""
        content = {field.name: getattr(self, field.name) for field in fields(self)} | {"notes": self.notes}
        del content["attention"], content["alternatives"]
        if self.attention is not None:
            content |= {"source_pieces": self.attention.source, "target_pieces": self.attention.target}
            content |= {"alignment": self.attention.moses}
        if self.alternatives:
            content["alternatives"] = [alternative.as_dict() for alternative in self.alternatives]
        return content


@dataclass(frozen=True, kw_only=True)
class Score:
    """The log-probability of a target as the translation of its source."""

    score: float  # the sum of the log-probabilities, including that of the end token
    tokens: tuple[int, ...]
    token_scores: tuple[float, ...]


@dataclass
class Summary:
    """Counts over many translations."""

    texts: int = 0
    sentences: int = 0
    tokens: int = 0
    cut: int = 0
    repeating: int = 0
    split: int = 0
    truncated: int = 0
    unknown: int = 0  # characters

    def add(self, translations: Iterable[Translation]) -> None:
        for translation in translations:
            self.texts += 1
            self.sentences += translation.sentences
            self.tokens += len(translation.tokens)
            self.cut += not translation.ended
            self.repeating += translation.repeats
            self.split += translation.parts > translation.sentences
            self.truncated += translation.truncated
            self.unknown += translation.unknown

    @property
    def notes(self) -> list[str]:
        """Possible problems, one sentence each."""
        counts = {
            "were cut at the length limit (--max-new-tokens)": self.cut,
            "repeat themselves": self.repeating,
            "are of texts that were too long and were split (--long)": self.split,
            "are of texts that were too long and lost their ends": self.truncated,
        }
        notes = [f"{count} of {self.texts} translations {problem}" for problem, count in counts.items() if count]
        if self.unknown:
            notes.append(f"the texts have {_characters(self.unknown)} unknown to the model")
        return notes


def _characters(count: int) -> str:
    return "1 character" if count == 1 else f"{count} characters"
