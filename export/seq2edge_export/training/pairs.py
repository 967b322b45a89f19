"""Sentence pairs from a tab-separated file, with the bad lines counted; needs nothing."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from seq2edge.errors import DataError


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
