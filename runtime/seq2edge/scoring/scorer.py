"""Score given targets, and compute the attention of translations.

A bundle with a scorer graph does it in one pass. Without one, targets are forced through the decoder step by step,
which works with any engine but gives no attention.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from seq2edge.bundle import tensor_names
from seq2edge.bundle.bundle import Bundle
from seq2edge.devices.session import open_session, run
from seq2edge.engine.decoder_inputs import first_decoder_inputs
from seq2edge.engine.encoder import Padding, encode
from seq2edge.engine.engine import OnnxEngine
from seq2edge.errors import BundleError
from seq2edge.options import CallOptions
from seq2edge.results import Translation
from seq2edge.scoring.attention import Attention, Weights, attention, average
from seq2edge.search import Ids, Scores
from seq2edge.search.batch_decode import Engine, Workers, group
from seq2edge.search.log_softmax import chosen_log_probabilities
from seq2edge.text.segments import Segment
from seq2edge.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

MAX_LOGITS = 8_000_000  # in memory at once: all positions of a batch
MAX_ATTENTION_WEIGHTS = 8_000_000  # in memory at once: all heads of a batch
Pair = tuple[Sequence[int], Sequence[int]]  # source ids, and target ids with the end token
T = TypeVar("T")


class TargetScorer:
    """Score targets in batches with the scorer graph of a bundle, or with its decoder where there is none."""

    def __init__(self, bundle: Bundle, engine: OnnxEngine, *, vocabulary: int) -> None:
        self.engine = engine
        self.scorer = open_scorer(bundle, engine)
        self.batch_tokens = max(1, MAX_LOGITS // vocabulary)

    def log_probabilities(self, pairs: Sequence[Pair], start: int, workers: Workers) -> list[Scores]:
        """Return the log-probability of each token of each target."""
        score = self._step_by_step if self.scorer is None else self._in_one_pass
        return self._in_batches(pairs, partial(score, start=start), workers, self._batches(pairs))

    def with_attention(
        self,
        segments: list[Segment],
        ranked: list[list[Translation]],
        options: CallOptions,
        tokenizer: Tokenizer,
        workers: Workers,
    ) -> list[list[Translation]]:
        """Return the same translations with the attention of the chosen heads."""
        scorer, heads, start = self.scorer, options.text.attention, options.generation.decoder_start_token_id
        if scorer is None:
            raise BundleError(
                "this bundle cannot show attention: it has no scorer graph, because its module returns no attention"
            )

        def attend(pairs: list[Pair]) -> list[Weights]:  # averaged per batch to save memory
            sources, targets = zip(*pairs, strict=True)
            return [average(one.attention, heads) for one in scorer.score(sources, targets, start=start)]

        grouped = list(zip(segments, ranked, strict=True))
        pairs = [(segment.ids, translation.tokens) for segment, several in grouped for translation in several]
        batches = [part for batch in self._batches(pairs) for part in _divide(batch, pairs, scorer.heads)]
        weights = iter(self._in_batches(pairs, attend, workers, batches))
        return [
            [replace(one, attention=_attention(segment, one, next(weights), tokenizer)) for one in several]
            for segment, several in grouped
        ]

    def _in_one_pass(self, pairs: list[Pair], *, start: int) -> list[Scores]:
        assert self.scorer is not None
        sources, targets = zip(*pairs, strict=True)
        return self.scorer.log_probabilities(sources, targets, start=start)

    def _step_by_step(self, pairs: list[Pair], *, start: int) -> list[Scores]:
        sources, targets = [list(source) for source, _ in pairs], [target for _, target in pairs]
        return forced_log_probabilities(self.engine, sources, targets, start=start)

    def _batches(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """Return the indices of the pairs in each batch; similar lengths share a batch."""
        return group([max(map(len, pair)) for pair in pairs], batch_tokens=self.batch_tokens)

    @staticmethod
    def _in_batches(
        pairs: Sequence[Pair], score: Callable[[list[Pair]], list[T]], workers: Workers, batches: list[list[int]]
    ) -> list[T]:
        """Score all batches and return the results in the order of the pairs."""
        results = workers.map(score, [[pairs[index] for index in batch] for batch in batches])
        by_index = {
            index: result
            for batch, several in zip(batches, results, strict=True)
            for index, result in zip(batch, several, strict=True)
        }
        return [by_index[index] for index in range(len(pairs))]


@dataclass(frozen=True)
class Scored:
    """The log-probabilities and cross-attention of a target given its source."""

    log_probabilities: Scores  # (T,)
    attention: Scores  # (L, H, T, S): row t is of the step that predicted token t


class Scorer:
    """The encoder and scorer sessions of a bundle."""

    def __init__(self, encoder: "InferenceSession", scorer: "InferenceSession", *, padding: Padding) -> None:
        self.encoder = encoder
        self.scorer = scorer
        self.padding = padding

    @property
    def heads(self) -> int:
        """The number of cross-attention heads in all layers."""
        _, layers, heads, *_ = next(
            one.shape for one in self.scorer.get_outputs() if one.name == tensor_names.ATTENTION
        )
        return int(layers * heads)

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, start: int) -> list[Scored]:
        """Score each target given its source; targets have an end token, but no start token.

        All pairs are one batch, whose logits (pairs, longest target, vocabulary) are in memory at once.
        """
        if not self._are_pairs(sources, targets):
            return []
        logits, attention = self._run([tensor_names.ALL_LOGITS, tensor_names.ATTENTION], sources, targets, start)
        return [
            Scored(
                _chosen(logits[row], target),
                attention[row, :, :, : len(target), : len(source)].copy(),  # a view would keep the whole batch alive
            )
            for row, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]

    def log_probabilities(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, start: int
    ) -> list[Scores]:  # (T,) each
        """Return the same log-probabilities without computing the attention."""
        if not self._are_pairs(sources, targets):
            return []
        [logits] = self._run([tensor_names.ALL_LOGITS], sources, targets, start)
        return [_chosen(logits[row], target) for row, target in enumerate(targets)]

    @staticmethod
    def _are_pairs(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> bool:
        if len(sources) != len(targets):
            raise ValueError(f"there are {len(sources)} sources, but {len(targets)} targets")
        return bool(sources)

    def _run(
        self, outputs: list[str], sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start: int
    ) -> list[Scores]:
        """Compute the named outputs: logits (B, 1, T, V) and cross-attention (B, L, H, T, S) of all positions."""
        inputs = shifted(targets, start=start, pad=self.padding.token)  # (B, T)
        states = encode(self.encoder, *self.padding.pad([list(source) for source in sources]))
        return run(self.scorer, first_decoder_inputs(self.scorer, inputs, states), outputs)


def _chosen(logits: Scores, target: Sequence[int]) -> Scores:  # (1, T, V) -> (T,)
    return chosen_log_probabilities(logits[0, : len(target)], np.asarray(target, np.int64))


def open_scorer(bundle: Bundle, engine: OnnxEngine) -> Scorer | None:
    """Open the scorer graph of a bundle, if it has one, with the encoder of the engine."""
    if tensor_names.SCORER not in bundle.manifest.files:
        return None
    session = open_session(
        bundle.folder / tensor_names.SCORER,
        threads=engine.threads,
        device_config=engine.device_config,
        content=bundle.graph(tensor_names.SCORER),
    )
    return Scorer(engine.encoder, session, padding=engine.padding)


def shifted(targets: Sequence[Sequence[int]], *, start: int, pad: int) -> Ids:  # (B, T)
    """Return the decoder inputs that predict each token: the start token and all tokens but the last."""
    longest = max(1, *(len(target) for target in targets))
    inputs = np.full((len(targets), longest), pad, np.int64)
    inputs[:, 0] = start
    for row, target in enumerate(targets):
        inputs[row, 1 : len(target)] = target[:-1]
    return inputs


def forced_log_probabilities(
    engine: Engine, sources: list[list[int]], targets: Sequence[Sequence[int]], *, start: int
) -> list[Scores]:  # (T,) each
    """Return the log-probability of each target token given those before it, step by step."""
    scores: list[list[np.float32]] = [[] for _ in targets]
    for position, (active, logits) in enumerate(forced_logits(engine, sources, targets, start=start)):
        tokens = np.array([targets[row][position] for row in active])
        for row, score in zip(active, chosen_log_probabilities(logits, tokens), strict=True):
            scores[row].append(score)
    return [np.array(row, np.float32) for row in scores]


def forced_logits(
    engine: Engine, sources: list[list[int]], targets: Sequence[Sequence[int]], *, start: int
) -> Iterator[tuple[Ids, Scores]]:
    """Yield at each step the rows whose target has not ended, and the logits of their next token (R, V)."""
    state = engine.start(sources)
    lengths = np.array([len(target) for target in targets])
    padded = np.zeros((len(targets), lengths.max()), np.int64)
    for row, target in enumerate(targets):
        padded[row, : len(target)] = target
    rows, tokens = np.arange(len(sources)), np.full(len(sources), start)
    for position in range(lengths.max()):
        logits = state.step(tokens[:, None, None], rows[:, None]).logits[:, 0]  # (B, V)
        active = np.flatnonzero(lengths > position)
        yield active, logits[active]
        tokens = padded[:, position]


def _attention(segment: Segment, translation: Translation, weights: Weights, tokenizer: Tokenizer) -> Attention:
    frame, tokens = tokenizer.frame, translation.tokens
    source = frame.truncate(tokenizer.tokenize_source(segment.text), len(segment.ids))
    target = [tokenizer.target.piece(token) for token in tokens]
    ends = {len(tokens) - 1} if translation.ended else set()
    return attention(weights, source, target, special=(frame.special_positions(segment.ids), ends))


def _divide(batch: list[int], pairs: Sequence[Pair], heads: int) -> list[list[int]]:
    """Divide a batch so that its attention, (pairs, heads, longest target, longest source), stays within the limit."""
    source, target = (max(len(pairs[index][side]) for index in batch) for side in (0, 1))
    size = max(1, MAX_ATTENTION_WEIGHTS // (heads * source * target))
    return [batch[start : start + size] for start in range(0, len(batch), size)]
