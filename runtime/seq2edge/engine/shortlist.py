"""Decode among the words of a shortlist.

The words of a batch are the union of what its sentences may say, and what a sentence may not say has a score of minus
infinity: so a sentence alone says what it says in a batch. Their rows of the output matrix are gathered once.

Which words a sentence may be translated to: for each source token a list of target tokens.

The file has a signature, three numbers (the size of the target vocabulary, how many source tokens there are, how many
words are listed), where the list of each source token begins, and the lists one behind the other. The last list is of
the words that every sentence may have. Numbers have 32 bits, words 16 where that is enough; the lowest byte is first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.devices.registry import DeviceConfig
from seq2edge.devices.session import open_session, run
from seq2edge.engine.decoder_inputs import RestrictedVocabulary
from seq2edge.engine.kv_append import AppendCacheState
from seq2edge.engine.kv_inplace import InplaceCacheState
from seq2edge.errors import BundleError
from seq2edge.search.interface import Flags, Ids, Scores

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

SIGNATURE = b"S2EWORDS"
HEADER = len(SIGNATURE) + 3 * 4
LARGEST = 2**31 - 1  # what a count in the header may say


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The lists of all source tokens in one array, and where each begins."""

    vocabulary: int
    starts: Ids  # (S + 2,): list s is words[starts[s] : starts[s + 1]]; the last one is for all sentences
    words: NDArray[np.unsignedinteger]

    def __post_init__(self) -> None:
        if len(self.starts) < 2 or self.starts[0] != 0 or self.starts[-1] != len(self.words):
            raise ValueError("its lists do not cover its words")
        if (np.diff(self.starts) < 0).any():
            raise ValueError("a list ends before it begins")
        if len(self.words) and int(self.words.max()) >= self.vocabulary:
            raise ValueError(f"it lists the word {self.words.max()}, but the vocabulary has {self.vocabulary}")

    @property
    def source_tokens(self) -> int:
        return len(self.starts) - 2

    def of(self, token: int) -> NDArray[np.unsignedinteger]:
        """The list of one source token; one that the table does not know has none."""
        if not 0 <= token < self.source_tokens:
            return self.words[:0]
        return self.words[self.starts[token] : self.starts[token + 1]]

    @property
    def always(self) -> NDArray[np.unsignedinteger]:
        return self.words[self.starts[-2] :]

    def allowed(self, sources: Sequence[Sequence[int]]) -> Flags:  # (B, V)
        """Which words each sentence may have; what it shares a batch with changes nothing."""
        found = np.zeros((len(sources), self.vocabulary), dtype=bool)
        for row, source in enumerate(sources):
            found[row, np.concatenate([self.always, *map(self.of, set(source))])] = True
        return found

    def to_bytes(self) -> bytes:
        sizes = np.array([self.vocabulary, self.source_tokens, len(self.words)], "<u4")
        words = self.words.astype(_word_type(self.vocabulary))
        return SIGNATURE + sizes.tobytes() + self.starts.astype("<u4").tobytes() + words.tobytes()


def shortlist_of(lists: Sequence[Sequence[int] | Ids], always: Sequence[int] | Ids, vocabulary: int) -> Shortlist:
    """A table of a list for each source token, and of the words that all sentences may have."""
    rows = [np.unique(np.asarray(one, np.int64)) for one in (*lists, always)]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Shortlist(vocabulary, starts, np.concatenate(rows).astype(_word_type(vocabulary)))


def read_shortlist(path: Path) -> Shortlist:
    """Read a table; whatever is in the file, no more memory is taken than it has bytes."""
    content = path.read_bytes()
    try:
        return _parsed(content)
    except ValueError as error:
        raise BundleError(f"{path} is no shortlist: {error}; make the bundle again with  seq2edge shortlist") from None


def _parsed(content: bytes) -> Shortlist:
    if len(content) < HEADER or not content.startswith(SIGNATURE):
        raise ValueError("it does not begin as one")
    vocabulary, tokens, count = np.frombuffer(content, "<u4", 3, len(SIGNATURE)).tolist()
    if max(vocabulary, tokens, count) > LARGEST:
        raise ValueError("its sizes are beyond any vocabulary")
    kind = np.dtype(_word_type(vocabulary))
    wanted = HEADER + 4 * (tokens + 2) + kind.itemsize * count
    if len(content) != wanted:
        raise ValueError(f"it has {len(content):,} bytes instead of {wanted:,}")
    starts = np.frombuffer(content, "<u4", tokens + 2, HEADER).astype(np.int64)
    return Shortlist(vocabulary, starts, np.frombuffer(content, kind, count, HEADER + 4 * (tokens + 2)))


def _word_type(vocabulary: int) -> str:
    return "<u2" if vocabulary <= 2**16 else "<u4"


OpenStep = Callable[[RestrictedVocabulary], InplaceCacheState | AppendCacheState]
NOBODY: Ids = np.empty(0, np.int64)


class ShortlistVocabulary:
    """The shortlist of a bundle, and what gathers words for its decoder."""

    def __init__(self, table: Shortlist, gatherer: "InferenceSession") -> None:
        self.table, self.gatherer = table, gatherer

    def words(self, allowed: Flags, known: Ids) -> RestrictedVocabulary:  # (B, V)
        """All words that some sentence may say, and such as are only read."""
        some: Flags = np.logical_or.reduce(allowed, axis=0)  # (V,)
        some[known] = True
        ids = np.flatnonzero(some)  # (U,)
        outputs = [output.name for output in self.gatherer.get_outputs()]
        gathered = dict(zip(outputs, run(self.gatherer, {tensor_names.WORDS: ids}), strict=True))
        bias = gathered.pop(tensor_names.WORD_BIAS, np.float32(0))
        return RestrictedVocabulary(ids, gathered, np.where(allowed[:, ids], bias, np.float32(-np.inf)))


def open_shortlist(bundle: Bundle, *, threads: int, device_config: DeviceConfig) -> ShortlistVocabulary:
    """The shortlist of a bundle, which must be one for its vocabulary."""
    table, shape = read_shortlist(bundle.folder / tensor_names.SHORTLIST), bundle.manifest.architecture
    if shape is None or table.vocabulary != shape.target_vocabulary:
        raise BundleError(
            f"{bundle.folder / tensor_names.SHORTLIST} is for {table.vocabulary} words, which is not what the model "
            "has; make the bundle again with  seq2edge shortlist"
        )
    return ShortlistVocabulary(
        table, open_session(bundle.folder / tensor_names.WORDS_GRAPH, threads=threads, device_config=device_config)
    )


class ShortlistState:
    """Decode one step among some words; what other words there are has to be said before the first."""

    def __init__(self, choice: ShortlistVocabulary, sources: list[list[int]], open_step: OpenStep) -> None:
        self.choice, self.sources, self.open_step = choice, sources, open_step
        self._opened: tuple[Ids, InplaceCacheState | AppendCacheState] | None = None

    @property
    def vocabulary(self) -> int:
        return self.choice.table.vocabulary

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]:
        """What the encoder has handed over."""
        return self.among(NOBODY, NOBODY)[1].cross_states

    def among(self, allowed: Ids, known: Ids) -> tuple[Ids, InplaceCacheState | AppendCacheState]:
        """The words of this batch (U,), and the step that gives their scores; the first call decides them."""
        if self._opened is None:
            flags = self.choice.table.allowed(self.sources)  # (B, V)
            flags[:, allowed] = True
            words = self.choice.words(flags, known)
            self._opened = words.ids, self.open_step(words)
        return self._opened

    def __call__(self, tokens: Ids, rows: Ids) -> Scores:  # (B, K, T), (B, K) -> (B, K, V)
        """The scores of all words, minus infinity where they are none of the sentence."""
        words, step = self.among(NOBODY, NOBODY)
        scores = np.full((*rows.shape, self.vocabulary), -np.inf, np.float32)
        scores[:, :, words] = step(tokens, rows)
        return scores
