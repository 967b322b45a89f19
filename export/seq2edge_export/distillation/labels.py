"""Translate plain text with a teacher into files that are kept: a killed run is resumed, a finished one is reused.

For ``english.txt`` the folder contains
english.source        the texts, one per line, each only once
english.references    the human translations of them, if the text is a .tsv with a second column
english.jsonl         what the teacher made of them, with scores; it appears when it is complete
english.json          what it was made with, so that it is reused only for the same
english.tsv           the pairs to learn from
english.dropped.tsv   the other pairs, each after the reason
"""

import gzip
import hashlib
import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from seq2edge.bundle.atomic_files import replaced_file
from seq2edge.errors import DataError, UsageError
from seq2edge.files.file_translation import Observer, fingerprint, translate_file
from seq2edge.files.lines import read_lines
from seq2edge.translator import Translator
from seq2edge_export.distillation.filters import FilterSettings, Label, problem_of, usual_ratio

COMPRESSED: dict[str, Callable[..., IO[str]]] = {".gz": gzip.open, ".xz": lzma.open}


@dataclass(frozen=True, kw_only=True)
class LabelSettings:
    """How the teacher translates."""

    num_beams: int | None = None  # None: as its bundle says
    best_of: int = 1  # translations to choose from by sentence BLEU, where there is a reference
    languages: tuple[str, str] = ("", "")  # of a multilingual teacher

    def options(self, translator: Translator) -> dict[str, Any]:
        """Return the options of the translator."""
        beams = self.num_beams or translator.manifest.generation.num_beams
        options: dict[str, Any] = {"num_beams": max(beams, self.best_of), "num_return_sequences": self.best_of}
        if translator.manifest.languages.codes:
            options |= {"source_lang": self.languages[0], "target_lang": self.languages[1]}
        return options


class TextLabels:
    """The labels of one text; ``folder`` contains those of all texts."""

    def __init__(self, text: Path, folder: Path) -> None:
        self.text, self.folder = text, folder
        self.name = text.name.removesuffix(text.suffix) if text.suffix in COMPRESSED else text.name
        self.name = self.name.rpartition(".")[0] or self.name

    def file(self, suffix: str) -> Path:
        return self.folder / f"{self.name}.{suffix}"

    @property
    def pairs(self) -> Path:
        return self.file("tsv")

    def prepare(self, seen: set[bytes]) -> int:
        """Write the texts that are not ``seen`` yet, add them, and return their number."""
        count = 0
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            sources = files.enter_context(_written(self.file("source")))
            references = files.enter_context(_written(self.file("references"))) if self._has_references else None
            for source, reference in self._read():
                digest = digest_of(source)
                if source and digest not in seen:
                    seen.add(digest)
                    sources.write(source + "\n")
                    count += 1
                    if references is not None:
                        references.write(reference + "\n")
        if not count:
            raise DataError(
                f"{self.text} contains no text that is not blank, or in the dev set or another text already"
            )
        return count

    def translate(self, translator: Translator, settings: LabelSettings, observe: Observer) -> None:
        """Translate the texts, unless that is done already."""
        options, record = settings.options(translator), self.file("json")
        made_with = {
            "teacher": fingerprint(translator.manifest),
            "texts": hashlib.sha256(self.file("source").read_bytes()).hexdigest(),
            "options": options,
        }
        if record.exists() and self.file("jsonl").exists():
            if record.read_text(encoding="utf-8", errors="replace") != _json(made_with):
                raise UsageError(
                    f"{self.file('jsonl')} was made by another teacher, of other text or with another search: "
                    "delete it to start over, or choose another --output"
                )
            return
        translate_file(
            translator,
            self.file("source"),
            self.file("jsonl"),
            format="jsonl",
            resume=True,
            options=options,
            observe=observe,
        )
        with replaced_file(record) as new:
            new.write_text(_json(made_with), encoding="utf-8")

    def filter(self, settings: FilterSettings) -> Counter[str]:
        """Write the good pairs and the dropped ones; return the number of good ones, and of others by reason."""
        usual, counts = usual_ratio(self._labels()), Counter[str]()
        with _written(self.pairs) as good, _written(self.file("dropped.tsv")) as bad:
            for label in self._labels():
                problem = problem_of(label, settings, usual=usual)
                counts[problem or "good"] += 1
                pair = f"{_cell(label.source)}\t{_cell(label.target)}\n"
                (bad if problem else good).write(f"{problem}\t{pair}" if problem else pair)
        if not counts["good"]:
            raise DataError(f"there is no pair to learn from: {summary(self, counts)}; see {self.file('dropped.tsv')}")
        return counts

    @property
    def _has_references(self) -> bool:
        return ".tsv" in self.text.suffixes

    def _read(self) -> Iterator[tuple[str, str]]:
        """Yield each line, or of a .tsv the first two columns."""
        for line in _lines(self.text):
            cells = [*line.split("\t"), ""] if self._has_references else [line.replace("\t", " "), ""]
            yield cells[0].strip(), cells[1].strip()

    def _labels(self) -> Iterator[Label]:
        references: Iterator[str] = iter(())
        if self.file("references").exists():
            references = read_lines(self.file("references"))
        try:
            for source, line in zip(read_lines(self.file("source")), read_lines(self.file("jsonl")), strict=True):
                yield _label(source, json.loads(line), next(references, ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(
                f"{self.file('jsonl')} is damaged: delete it to translate {self.text} again with --resume"
            ) from None


def digest_of(text: str) -> bytes:
    """Return a short key of a text, the same whatever its case and spaces."""
    return hashlib.blake2b(" ".join(text.casefold().split()).encode(), digest_size=8).digest()


def summary(label: TextLabels, counts: Counter[str]) -> str:
    """Tell how many pairs are kept, and how many are dropped for which reason."""
    dropped = counts.total() - counts["good"]
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.most_common() if reason != "good")
    return f"{label.pairs}: {counts['good']:,} pairs" + (f", {dropped:,} dropped ({reasons})" if dropped else "")


def check_names(labels: list[TextLabels]) -> None:
    """Refuse texts whose files would have the same names."""
    [(name, count)] = Counter(one.name for one in labels).most_common(1)
    if count > 1:
        raise UsageError(f"{count} texts are called {name}: rename all but one, or join them")


def _label(source: str, result: dict[str, Any], reference: str) -> Label:
    best = _best([result, *result.get("alternatives", [])], reference)
    return Label(
        source,
        best["text"],
        score=sum(best["token_scores"]) / max(len(best["token_scores"]), 1),
        ended=best["ended"],
        repeats=best["repeats"],
        unknown=best["unknown"],
    )


def _best(results: list[dict[str, Any]], reference: str) -> dict[str, Any]:
    """Return the result most like the reference, or the first one if there is none."""
    if not reference or len(results) == 1:
        return results[0]
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(effective_order=True)
    return max(results, key=lambda result: bleu.sentence_score(result["text"], [reference]).score)


def _lines(path: Path) -> Iterator[str]:
    opener = COMPRESSED.get(path.suffix)
    if opener is None:
        yield from read_lines(path, errors="replace")
        return
    try:
        with opener(path, "rt", encoding="utf-8", errors="replace", newline="\n") as file:
            yield from (line.rstrip("\n") for line in file)
    except (OSError, EOFError, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or "it is not a complete compressed file"
        raise DataError(f"{path} cannot be read: {reason}") from None


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"


def _cell(text: str) -> str:
    """Return a text that fits into one column of one line."""
    return " ".join(text.split())


@contextmanager
def _written(path: Path) -> Iterator[IO[str]]:
    """Open a file that appears when it is complete."""
    with replaced_file(path) as new, new.open("w", encoding="utf-8", newline="\n") as file:
        yield file
