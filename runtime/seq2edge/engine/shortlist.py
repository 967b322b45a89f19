"""Restrict the decoder to a lexical shortlist: for each source token, the target ids it may be translated to.

The ids of a batch are the union of those of its sentences, and an id that a sentence may not use has a logit of minus
infinity, so a sentence has the same output alone as in a batch. Their rows of the output projection are gathered once.

The file has a signature, three integers (size of the target vocabulary, number of source tokens, number of listed ids),
the start of each source token's list, and the lists one behind the other; the last list holds the ids that every
sentence may use. Integers have 32 bits, ids 16 where that is enough, all little-endian.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.devices.session import run
from seq2edge.engine.decoder_inputs import RestrictedVocabulary
from seq2edge.errors import BundleError
from seq2edge.search import DecoderState, Flags, Ids, StepOutput
from seq2edge.search.restricted_vocabulary import RestrictableState

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

OpenState = Callable[[RestrictedVocabulary | None], DecoderState]
NO_IDS: Ids = np.empty(0, np.int64)
SIGNATURE = b"S2EWORDS"
HEADER = len(SIGNATURE) + 3 * 4
LARGEST = 2**31 - 1  # what a count in the header may say


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The target ids that each source token may be translated to."""

    vocabulary_size: int  # of the target
    starts: Ids  # (S + 2,): list s is token_ids[starts[s] : starts[s + 1]]; the last one is for all sentences
    token_ids: NDArray[np.unsignedinteger]

    def __post_init__(self) -> None:
        if len(self.starts) < 2 or self.starts[0] != 0 or self.starts[-1] != len(self.token_ids):
            raise ValueError("its lists do not cover its token ids")
        if (np.diff(self.starts) < 0).any():
            raise ValueError("a list ends before it begins")
        if len(self.token_ids) and int(self.token_ids.max()) >= self.vocabulary_size:
            raise ValueError(
                f"it lists the token {self.token_ids.max()}, but the vocabulary has {self.vocabulary_size}"
            )

    @property
    def source_tokens(self) -> int:
        return len(self.starts) - 2

    def of(self, token: int) -> NDArray[np.unsignedinteger]:
        """Return the list of one source token; one outside the table has none."""
        if not 0 <= token < self.source_tokens:
            return self.token_ids[:0]
        return self.token_ids[self.starts[token] : self.starts[token + 1]]

    @property
    def always(self) -> NDArray[np.unsignedinteger]:
        return self.token_ids[self.starts[-2] :]

    def allowed(self, sources: Sequence[Sequence[int]]) -> Flags:  # (B, V)
        """Tell which target ids each sentence may use, whatever else is in the batch."""
        allowed = np.zeros((len(sources), self.vocabulary_size), dtype=bool)
        for row, source in enumerate(sources):
            allowed[row, np.concatenate([self.always, *map(self.of, set(source))])] = True
        return allowed

    def to_bytes(self) -> bytes:
        sizes = np.array([self.vocabulary_size, self.source_tokens, len(self.token_ids)], "<u4")
        token_ids = self.token_ids.astype(_id_type(self.vocabulary_size))
        return SIGNATURE + sizes.tobytes() + self.starts.astype("<u4").tobytes() + token_ids.tobytes()


def shortlist_of(lists: Sequence[Sequence[int] | Ids], always: Sequence[int] | Ids, vocabulary_size: int) -> Shortlist:
    """Build a shortlist from a list for each source token and the ids that all sentences may use."""
    rows = [np.unique(np.asarray(one, np.int64)) for one in (*lists, always)]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Shortlist(vocabulary_size, starts, np.concatenate(rows).astype(_id_type(vocabulary_size)))


def read_shortlist(path: Path) -> Shortlist:
    """Read a shortlist file, using no more memory than it has bytes, whatever it contains."""
    content = path.read_bytes()
    try:
        return _parse(content)
    except ValueError as error:
        raise BundleError(
            f"{path} is not a shortlist: {error}; make the bundle again with  seq2edge shortlist"
        ) from None


def _parse(content: bytes) -> Shortlist:
    if len(content) < HEADER or not content.startswith(SIGNATURE):
        raise ValueError("it does not begin like one")
    vocabulary, tokens, count = np.frombuffer(content, "<u4", 3, len(SIGNATURE)).tolist()
    if max(vocabulary, tokens, count) > LARGEST:
        raise ValueError("its sizes exceed any vocabulary")
    dtype = np.dtype(_id_type(vocabulary))
    expected = HEADER + 4 * (tokens + 2) + dtype.itemsize * count
    if len(content) != expected:
        raise ValueError(f"it has {len(content):,} bytes instead of {expected:,}")
    starts = np.frombuffer(content, "<u4", tokens + 2, HEADER).astype(np.int64)
    return Shortlist(vocabulary, starts, np.frombuffer(content, dtype, count, HEADER + 4 * (tokens + 2)))


def _id_type(vocabulary_size: int) -> str:
    return "<u2" if vocabulary_size <= 2**16 else "<u4"


class ShortlistVocabulary:
    """The shortlist of a bundle, and the graph that gathers rows of the output projection."""

    def __init__(self, shortlist: Shortlist, gatherer: "InferenceSession") -> None:
        self.shortlist, self.gatherer = shortlist, gatherer

    def restricted_to(self, allowed: Flags, known: Ids) -> RestrictedVocabulary:  # (B, V)
        """Return the ids that some sentence may use, and those that are only read."""
        used: Flags = np.logical_or.reduce(allowed, axis=0)  # (V,)
        used[known] = True
        ids = np.flatnonzero(used)  # (U,)
        outputs = [output.name for output in self.gatherer.get_outputs()]
        gathered = dict(zip(outputs, run(self.gatherer, {tensor_names.WORDS: ids}), strict=True))
        bias = gathered.pop(tensor_names.WORD_BIAS, np.float32(0))
        return RestrictedVocabulary(ids, gathered, np.where(allowed[:, ids], bias, np.float32(-np.inf)))


def open_shortlist(bundle: Bundle, open_session: Callable[[str], "InferenceSession"]) -> ShortlistVocabulary:
    """Open the shortlist of a bundle, which must match its vocabulary."""
    path, architecture = bundle.folder / tensor_names.SHORTLIST, bundle.manifest.architecture
    shortlist = read_shortlist(path)
    if architecture is None or shortlist.vocabulary_size != architecture.target_vocabulary:
        raise BundleError(
            f"{path} is for a vocabulary of {shortlist.vocabulary_size}, which is not the model's; "
            "make the bundle again with  seq2edge shortlist"
        )
    return ShortlistVocabulary(shortlist, open_session(tensor_names.WORDS_GRAPH))


class ShortlistState(RestrictableState):
    """Decorate a decoder state: restrict it to the shortlist of its sentences and the ids that the search needs."""

    def __init__(self, vocabulary: ShortlistVocabulary, sources: list[list[int]], open_state: OpenState) -> None:
        self.vocabulary, self.sources, self.open_state = vocabulary, sources, open_state
        self._opened: tuple[Ids, DecoderState] | None = None

    @property
    def vocabulary_size(self) -> int:
        return self.vocabulary.shortlist.vocabulary_size

    @property
    def cross_states(self) -> dict[str, NDArray[Any]]:
        return self.restrict(NO_IDS, NO_IDS)[1].cross_states

    def restrict(self, allowed: Ids, known: Ids) -> tuple[Ids, DecoderState]:
        """Return the ids of this batch and the state that returns their logits; the first call decides them."""
        if self._opened is None:
            flags = self.vocabulary.shortlist.allowed(self.sources)  # (B, V)
            flags[:, allowed] = True
            restricted = self.vocabulary.restricted_to(flags, known)
            self._opened = restricted.token_ids, self.open_state(restricted)
        return self._opened

    def step(self, tokens: Ids, rows: Ids) -> StepOutput:
        """Return logits over the whole vocabulary, minus infinity for ids that a sentence may not use."""
        token_ids, state = self.restrict(NO_IDS, NO_IDS)
        logits = np.full((*rows.shape, self.vocabulary_size), -np.inf, np.float32)
        logits[:, :, token_ids] = state.step(tokens, rows).logits
        return StepOutput(logits)
