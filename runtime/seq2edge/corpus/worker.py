"""Translate batches of rows in any process: the unit of work of all engines, and of pipelines of one's own."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from seq2edge.corpus.formats import Column, Columns, Unusable
from seq2edge.errors import CannotSplitError, TextTooLongError, UsageError
from seq2edge.results import Translation

if TYPE_CHECKING:
    from seq2edge.translator import Translator

KEPT = ("score", "notes")

# A process may unpickle a worker once for each batch; it opens each bundle only once.
_opened: "dict[str, Translator]" = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class TranslatedRows:
    """The translations of some rows, and the reasons why others have none, by the index of the row."""

    translations: dict[int, Translation] = field(default_factory=dict)
    poisoned: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Translate the rows of a batch: a pyarrow table, a pandas frame, or a dict of lists or arrays.

    It can be pickled; the bundle is opened when a process first needs it. A row that cannot be translated, because it
    is not a text or too long with ``long="error"``, gets None, and its reason as a note if notes are kept.
    """

    bundle: str | None
    column: str
    output_column: str
    keep: tuple[str, ...] = ()  # score, notes
    loading: Mapping[str, Any] = field(default_factory=dict)  # arguments of the Translator
    options: Mapping[str, Any] = field(default_factory=dict)  # of the search and the text

    def __post_init__(self) -> None:
        unknown = [name for name in self.keep if name not in KEPT]
        if unknown:
            raise UsageError(f"{unknown[0]!r} cannot be kept; keep takes {' and '.join(KEPT)}")

    @property
    def new_columns(self) -> list[str]:
        return [self.output_column, *(f"{self.output_column}_{name}" for name in self.keep)]

    @property
    def translator(self) -> "Translator":
        from seq2edge.translator import Translator

        key = repr((self.bundle, sorted(self.loading.items())))
        with _lock:
            if key not in _opened:
                _opened[key] = Translator(self.bundle, **self.loading)
            return _opened[key]

    def translate(self, texts: Sequence[Any], *, first: int = 0) -> TranslatedRows:
        """Translate what can be translated; ``first`` is the index of the first row in its file."""
        rows = TranslatedRows(poisoned={row: reason for row, text in enumerate(texts) if (reason := _problem(text))})
        left = [row for row in range(len(texts)) if row not in rows.poisoned]
        while left:
            try:
                group = [texts[row] for row in left]
                [found] = self.translator.translate_groups([group], first=first, **self.options)
                rows.translations.update(zip(left, found, strict=True))
                return rows
            except TextTooLongError as error:  # before anything was translated
                row = left.pop(error.index - first)
                rows.poisoned[row] = f"has {error.tokens} tokens, but the model takes at most {error.max_tokens}"
            except CannotSplitError as error:
                rows.poisoned[left.pop(error.index)] = str(error)
        return rows

    def columns(self, rows: TranslatedRows, wanted: Sequence[int]) -> Columns:
        """Return the new columns for these rows, with None where there is no translation."""
        found = [rows.translations.get(row) for row in wanted]
        columns = {self.output_column: Column("text", [None if one is None else one.text for one in found])}
        if "score" in self.keep:
            scores = [None if one is None else one.score for one in found]
            columns[f"{self.output_column}_score"] = Column("score", scores)
        if "notes" in self.keep:
            notes = [
                [rows.poisoned[row]] if one is None else list(one.notes) for row, one in zip(wanted, found, strict=True)
            ]
            columns[f"{self.output_column}_notes"] = Column("notes", notes)
        return columns

    def __call__(self, batch: Any) -> Any:
        """Return the batch with the new columns."""
        values = batch[self.column]
        texts = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
        columns = self.columns(self.translate(texts), range(len(texts)))
        if isinstance(batch, Mapping):
            return {**batch, **{name: column.values for name, column in columns.items()}}
        if hasattr(batch, "append_column"):  # pyarrow
            for name, column in columns.items():
                batch = batch.append_column(name, [column.values])
            return batch
        return batch.assign(**{name: column.values for name, column in columns.items()})  # pandas


def worker(
    bundle: str | None = None,
    *,
    column: str = "text",
    output_column: str = "translation",
    keep: Sequence[str] = (),
    threads: int = 1,
    workers: int = 1,
    device: str = "cpu",
    shortlist: bool = True,
    **options: Any,
) -> Worker:
    """Return a function on batches of rows, for ``map_batches`` of Ray, ``mapInPandas`` of Spark or Dask.

    Each process opens its own ``Translator`` of the bundle, or of the default model, which cannot be pickled itself.
    """
    loading = {"threads": threads, "workers": workers, "device": device, "shortlist": shortlist}
    return Worker(
        bundle=bundle, column=column, output_column=output_column, keep=tuple(keep), loading=loading, options=options
    )


def _problem(text: Any) -> str | None:
    """Return why a value cannot be translated, or None."""
    if isinstance(text, Unusable):
        return text.reason
    return None if isinstance(text, str) else f"is {'empty' if text is None else type(text).__name__}, not a text"
