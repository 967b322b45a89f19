"""What becomes of a text: the results of the runtime."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2edge.scoring.attention import Attention, Pairs


@dataclass(frozen=True, kw_only=True)
class Translation:
    """What became of one text, and all that a reader of it should know."""

    text: str
    tokens: tuple[int, ...] = ()  # with the target prefix and the end mark; of a split text, one part after another
    score: float = 0.0  # of beam search as Hugging Face's sequences_scores; else the sum of the log-probabilities
    token_scores: tuple[float, ...] = ()  # log-probabilities of the tokens, those of a prefix left out
    ended: bool = True  # false: cut at the length limit
    repeats: bool = False  # true: it is stuck in a loop
    parts: int = 1  # above 1: the text was too long for the model and was split into so many
    truncated: bool = False  # true: the end of the text was cut off, as was asked for
    unknown: int = 0  # characters of the text that the model does not know
    attention: "Attention | None" = None  # on request
    alternatives: tuple["Translation", ...] = ()  # the next best, with num_return_sequences

    @property
    def notes(self) -> tuple[str, ...]:
        """What may be wrong with it, in words."""
        return tuple(
            note
            for note, true in (
                (f"was too long and was split into {self.parts} parts", self.parts > 1),
                ("was too long and lost its end", self.truncated),
                (f"has {_characters(self.unknown)} unknown to the model", self.unknown),
                ("was cut at the length limit", not self.ended),
                ("repeats itself", self.repeats),
            )
            if true
        )

    @property
    def alignment(self) -> "Pairs | None":
        """(source, target) places of tokens that belong together, if attention was asked for."""
        return None if self.attention is None else self.attention.alignment

    def without_attention(self) -> "Translation":
        alternatives = tuple(one.without_attention() for one in self.alternatives)
        return replace(self, attention=None, alternatives=alternatives)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what was not asked for is left out."""
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
    """How likely the model finds a target for a source."""

    score: float  # the sum of the log-probabilities, the end mark included
    tokens: tuple[int, ...]
    token_scores: tuple[float, ...]


@dataclass
class Summary:
    """What a run over many texts came to."""

    texts: int = 0
    tokens: int = 0
    cut: int = 0
    repeating: int = 0
    split: int = 0
    truncated: int = 0
    unknown: int = 0  # characters

    def add(self, translations: Iterable[Translation]) -> None:
        for one in translations:
            self.texts += 1
            self.tokens += len(one.tokens)
            self.cut += not one.ended
            self.repeating += one.repeats
            self.split += one.parts > 1
            self.truncated += one.truncated
            self.unknown += one.unknown

    @property
    def notes(self) -> list[str]:
        """What a reader of the output should know, a sentence each."""
        counted = {
            "were cut at the length limit (--max-new-tokens)": self.cut,
            "repeat themselves": self.repeating,
            "are of texts that were too long and were split (--long)": self.split,
            "are of texts that were too long and lost their ends": self.truncated,
        }
        notes = [f"{count} of {self.texts} translations {what}" for what, count in counted.items() if count]
        if self.unknown:
            notes.append(f"the texts have {_characters(self.unknown)} unknown to the model")
        return notes


def _characters(count: int) -> str:
    return "1 character" if count == 1 else f"{count} characters"
