"""Read sentence pairs, encode them, and make batches of similar lengths."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from seq2edge.errors import DataError
from seq2edge.text.tokenizer import Tokenizer

Encoded = tuple[list[int], list[int]]  # source ids and target ids, each with the end-of-sentence token


@dataclass(frozen=True)
class Pairs:
    """The sentence pairs of a file in order, and the number of skipped lines by reason."""

    path: Path
    sources: list[str]
    targets: list[str]
    skipped: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.sources)

    def report(self) -> str:
        """Describe how many lines were read and skipped."""
        text = f"{self.path}: {len(self):,} pairs"
        if self.skipped:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.skipped.items()))
            text += f", {self.skipped.total():,} lines skipped ({reasons})"
        return text


def read_pairs(path: Path) -> Pairs:
    """Read ``source<TAB>target`` lines; further columns are ignored."""
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
        raise DataError(f"no usable line: {pairs.report()}; each line must be  source<TAB>target  in UTF-8")
    return pairs


def _lines(content: bytes) -> list[bytes]:
    """Split at newlines only, as text may contain the other characters that ``str.splitlines`` splits at."""
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def _add(pairs: Pairs, line: bytes) -> str | None:
    """Add one line, or return why it is skipped."""
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


@dataclass(frozen=True)
class Corpus:
    """Encoded sentence pairs and their target texts."""

    encoded: list[Encoded] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.encoded)


def encode_pairs(pairs: Pairs, tokenizer: Tokenizer, *, max_tokens: int, report: Callable[[str], None]) -> Corpus:
    """Encode both sides; omit pairs that are too long or empty, and report their number."""
    corpus, omitted = Corpus(), Counter[str]()
    sources, targets = tokenizer.encode(pairs.sources), tokenizer.encode_target(pairs.targets)
    for source, target, text in zip(sources, targets, pairs.targets, strict=True):
        problem = _problem(source, target, max_tokens)
        if problem:
            omitted[problem] += 1
        else:
            corpus.encoded.append((source, target))
            corpus.targets.append(text)
    if omitted:
        report(_omitted(pairs, omitted))
    if not corpus.encoded:
        raise DataError(f"no usable pair: {_omitted(pairs, omitted)}; increase --max-positions or check the text")
    return corpus


def _problem(source: list[int], target: list[int], max_tokens: int) -> str | None:
    if max(len(source), len(target)) > max_tokens:
        return f"longer than {max_tokens} tokens"
    if min(len(source), len(target)) == 1:  # only the end-of-sentence token
        return "with a side without visible characters"
    return None


def _omitted(pairs: Pairs, omitted: Counter[str]) -> str:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(omitted.items()))
    return f"{pairs.path}: {omitted.total():,} pairs omitted ({reasons})"


@dataclass(frozen=True)
class Batch:
    """Padded tensors for teacher forcing."""

    source: Tensor  # (B, S)
    source_mask: Tensor  # (B, S), true where there is a token
    target_input: Tensor  # (B, T), begins with the start token
    target_output: Tensor  # (B, T), ends with the end-of-sentence token; padding is ignored by the loss

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(tensor.to(device) for tensor in vars(self).values()))


def draw_rows(files: Sequence[tuple[int, float]], *, seed: int, epoch: int) -> np.ndarray:
    """Return the rows of one epoch: of each file with so many rows and this weight.

    A file of weight 2 is drawn twice, one of weight 0.5 a random half; the number of rows is the same in every epoch.
    """
    random = np.random.default_rng([seed, epoch, 1])  # 1: other numbers than those of ``plan_epoch``
    drawn, first = [], 0
    for size, weight in files:
        drawn += [np.arange(first, first + size)] * int(weight)
        drawn.append(first + np.sort(random.permutation(size)[: round(weight % 1 * size)]))
        first += size
    return np.concatenate(drawn)


def plan_epoch(lengths: np.ndarray, *, batch_tokens: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Group the sentences of one epoch into batches; the same seed and epoch always give the same plan.

    A batch contains sentences of similar length, so that there is little padding: its rows times its longest side stay
    within ``batch_tokens``, unless a single sentence is longer than that. Sentences of equal length, and the batches,
    are shuffled in every epoch; the number of batches stays the same.
    """
    random = np.random.default_rng([seed, epoch])
    order = np.lexsort((random.random(len(lengths)), lengths[:, 0], lengths[:, 1]))
    longest = lengths.max(axis=1)
    batches = _split(order, longest[order], batch_tokens)
    return [batches[index] for index in random.permutation(len(batches))]


def _split(order: np.ndarray, longest: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Split the ordered sentences where one more would make the padded batch too large."""
    splits, begin, width = [], 0, 0
    for index, length in enumerate(longest.tolist()):
        width = max(width, length)
        if index > begin and width * (index - begin + 1) > batch_tokens:
            splits.append(index)
            begin, width = index, length
    return np.split(order, splits)


def plan_in_order(lengths: np.ndarray, *, batch_tokens: int) -> list[np.ndarray]:
    """Group sentences for evaluation, with the same plan every time."""
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
