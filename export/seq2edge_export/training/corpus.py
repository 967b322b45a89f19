"""Sentence pairs as ids, without those that the model cannot take; needs sentencepiece."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from seq2edge.errors import DataError
from seq2edge.tokenizer import Tokenizer
from seq2edge_export.training.batches import Encoded
from seq2edge_export.training.pairs import Pairs


@dataclass(frozen=True)
class Corpus:
    """What could be encoded, and the target text that belongs to it."""

    encoded: list[Encoded] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.encoded)


def encode_pairs(pairs: Pairs, tokenizer: Tokenizer, *, longest: int, say: Callable[[str], None]) -> Corpus:
    """Ids of both sides; pairs that are too long or say nothing are left out, and their number is said."""
    corpus, left_out = Corpus(), Counter[str]()
    sources, targets = tokenizer.encode(pairs.sources), tokenizer.encode_target(pairs.targets)
    for source, target, text in zip(sources, targets, pairs.targets, strict=True):
        problem = _problem(source, target, longest)
        if problem:
            left_out[problem] += 1
        else:
            corpus.encoded.append((source, target))
            corpus.targets.append(text)
    if left_out:
        say(_report(pairs, left_out))
    if not corpus.encoded:
        raise DataError(
            f"no pair is left to use: {_report(pairs, left_out)}; raise --max-positions or look at the text"
        )
    return corpus


def _problem(source: list[int], target: list[int], longest: int) -> str | None:
    if max(len(source), len(target)) > longest:
        return f"longer than {longest} tokens"
    if min(len(source), len(target)) == 1:  # the end mark alone
        return "with a side that holds no visible character"
    return None


def _report(pairs: Pairs, left_out: Counter[str]) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(left_out.items()))
    return f"{pairs.path}: {left_out.total():,} pairs left out ({kinds})"
