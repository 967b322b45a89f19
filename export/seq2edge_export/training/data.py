"""Sentence pairs as ids, without those that the model cannot take.

Sentence pairs from a tab-separated file, with the bad lines counted.

Batches of sentences of like length, about the same number of tokens each.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from seq2edge.errors import DataError
from seq2edge.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Pairs:
    """What a file gave: its good lines in order, and how many bad ones of each kind."""

    path: Path
    sources: list[str]
    targets: list[str]
    skipped: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.sources)

    def report(self) -> str:
        """One sentence about what was read and what was not."""
        text = f"{self.path}: {len(self):,} pairs"
        if self.skipped:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.skipped.items()))
            text += f", {self.skipped.total():,} lines skipped ({kinds})"
        return text


def read_pairs(path: Path) -> Pairs:
    """Read ``source<TAB>target`` lines; columns behind the second are left alone."""
    pairs = Pairs(path, [], [])
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    for line in _lines(content):
        problem = _add(pairs, line)
        if problem:
            pairs.skipped[problem] += 1
    if not len(pairs):
        raise DataError(f"no usable line: {pairs.report()}; each line should be  source<TAB>target  in UTF-8")
    return pairs


def _lines(content: bytes) -> list[bytes]:
    """Split at newlines alone: the other characters that Python calls line ends may stand in text."""
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def _add(pairs: Pairs, line: bytes) -> str | None:
    """Add one line, or say what is wrong with it."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return "not UTF-8"
    columns = text.rstrip("\r").split("\t")
    if len(columns) < 2:
        return "without a tab"
    source, target = columns[0].strip(), columns[1].strip()
    if not source or not target:
        return "with an empty side"
    pairs.sources.append(source)
    pairs.targets.append(target)
    return None


Encoded = tuple[list[int], list[int]]  # source ids and target ids, each with its end mark


@dataclass(frozen=True)
class Batch:
    """Padded tensors for teacher forcing."""

    source: Tensor  # (B, S)
    source_mask: Tensor  # (B, S), true where there is a token
    target_input: Tensor  # (B, T), begins with the start mark
    target_output: Tensor  # (B, T), ends with the end mark; padding where there is nothing to learn

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(tensor.to(device) for tensor in vars(self).values()))


def plan_epoch(lengths: np.ndarray, *, batch_tokens: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Group the sentences of one epoch; the same seed and epoch always give the same plan.

    A batch holds sentences of nearly the same length, so that little is padding: its rows times its longest side stay
    within ``batch_tokens``, unless a single sentence is longer than that. Sentences of equal length meet in a new order
    every epoch, and so do the batches, of which there are always as many.
    """
    random = np.random.default_rng([seed, epoch])
    order = np.lexsort((random.random(len(lengths)), lengths[:, 0], lengths[:, 1]))
    longest = lengths.max(axis=1)
    batches = _cut(order, longest[order], batch_tokens)
    return [batches[place] for place in random.permutation(len(batches))]


def _cut(order: np.ndarray, longest: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Cut the ordered sentences where one more would make the padded batch too large."""
    cuts, begin, widest = [], 0, 0
    for place, length in enumerate(longest.tolist()):
        widest = max(widest, length)
        if place > begin and widest * (place - begin + 1) > batch_tokens:
            cuts.append(place)
            begin, widest = place, length
    return np.split(order, cuts)


def plan_in_order(lengths: np.ndarray, *, batch_tokens: int) -> list[np.ndarray]:
    """Group sentences for measuring: the same plan every time."""
    return plan_epoch(lengths, batch_tokens=batch_tokens, seed=0, epoch=0)


def lengths_of(encoded: list[Encoded]) -> np.ndarray:
    return np.array([(len(source), len(target)) for source, target in encoded])  # (N, 2)


def make_batch(rows: list[Encoded], *, pad: int, start: int) -> Batch:
    """Pad the rows and shift the target by one."""
    source = pad_rows([source for source, _ in rows], pad)
    output = pad_rows([target for _, target in rows], pad)
    shifted = torch.cat([torch.full((len(rows), 1), start), output[:, :-1]], dim=1)
    source_mask = mask_of([source for source, _ in rows])
    return Batch(source, source_mask, shifted, output)


def pad_rows(rows: list[list[int]], pad: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [pad] * (width - len(row)) for row in rows])


def mask_of(rows: list[list[int]]) -> Tensor:
    lengths = torch.tensor([len(row) for row in rows])
    return torch.arange(int(lengths.max())) < lengths[:, None]


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
