"""Score given targets in one pass and show where the decoder looked.

What an engine says when it is forced to say a given target, step by step.

The scorer does it in one pass; this works with any engine, also of a bundle that has no scorer.

Read given targets beside their sources: how likely they are, where the decoder looks.
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
from seq2edge.engine.encoder import encode
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


@dataclass(frozen=True)
class Scored:
    """How likely the tokens of a target are after its source, and where the decoder looked for each."""

    log_probabilities: Scores  # (T,)
    attention: Scores  # (layers, heads, T, S): row t is from the step that predicted token t


class Scorer:
    """The encoder and the scorer graph of one bundle, ready to run."""

    def __init__(self, encoder: "InferenceSession", scorer: "InferenceSession", *, pad: int) -> None:
        self.encoder = encoder
        self.scorer = scorer
        self.pad = pad

    @property
    def heads(self) -> int:
        """How many heads of all layers look at the source."""
        _, layers, heads, *_ = next(
            one.shape for one in self.scorer.get_outputs() if one.name == tensor_names.ATTENTION
        )
        return int(layers * heads)

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, start: int) -> list[Scored]:
        """Score each target after its source; targets are without the start token, and with the end token.

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
        """The same without the attention, which is then not computed."""
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
        self, wanted: list[str], sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start: int
    ) -> list[Scores]:
        """Of the logits (B, 1, T, V) and the cross-attention (B, L, H, T, S) of all positions, what is wanted."""
        inputs = shifted(targets, start=start, pad=self.pad)  # (B, T)
        read = encode(self.encoder, [list(source) for source in sources], pad=self.pad)
        return run(self.scorer, first_decoder_inputs(self.scorer, inputs, read), wanted)


def _chosen(logits: Scores, target: Sequence[int]) -> Scores:  # (1, T, V) -> (T,)
    return chosen_log_probabilities(logits[0, : len(target)], np.asarray(target, np.int64))


def open_scorer(bundle: Bundle, engine: OnnxEngine) -> Scorer | None:
    """The scorer of a bundle, with the encoder that the engine has loaded; none where the bundle has none."""
    if tensor_names.SCORER not in bundle.manifest.files:
        return None
    session = open_session(
        bundle.folder / tensor_names.SCORER, threads=engine.threads, device_config=engine.device_config
    )
    return Scorer(engine.encoder, session, pad=engine.pad)


def shifted(targets: Sequence[Sequence[int]], *, start: int, pad: int) -> Ids:  # (B, T)
    """What the decoder reads to predict each token: the start token and all tokens but the last."""
    longest = max(1, *(len(target) for target in targets))
    inputs = np.full((len(targets), longest), pad, np.int64)
    inputs[:, 0] = start
    for row, target in enumerate(targets):
        inputs[row, 1 : len(target)] = target[:-1]
    return inputs


def forced_log_probabilities(
    engine: Engine, sources: list[list[int]], targets: Sequence[Sequence[int]], *, start: int
) -> list[Scores]:  # (T,) each
    """How likely each token of each target is when those before it are given; targets are without the start token."""
    found: list[list[np.float32]] = [[] for _ in targets]
    for place, (alive, logits) in enumerate(forced_logits(engine, sources, targets, start=start)):
        tokens = np.array([targets[row][place] for row in alive])
        for row, score in zip(alive, chosen_log_probabilities(logits, tokens), strict=True):
            found[row].append(score)
    return [np.array(scores, np.float32) for scores in found]


def forced_logits(
    engine: Engine, sources: list[list[int]], targets: Sequence[Sequence[int]], *, start: int
) -> Iterator[tuple[Ids, Scores]]:
    """At each step, the sentences whose target is not over and the logits of their next token (R, V)."""
    step = engine.start(sources)
    lengths = np.array([len(target) for target in targets])
    padded = np.zeros((len(targets), lengths.max()), np.int64)
    for row, target in enumerate(targets):
        padded[row, : len(target)] = target
    rows, tokens = np.arange(len(sources)), np.full(len(sources), start)
    for place in range(lengths.max()):
        logits = step(tokens[:, None, None], rows[:, None])[:, 0]  # (B, V)
        alive = np.flatnonzero(lengths > place)
        yield alive, logits[alive]
        tokens = padded[:, place]


LOGITS_AT_ONCE = 8_000_000  # numbers: a batch has the logits of all its positions in memory
ATTENTION_AT_ONCE = 8_000_000  # numbers: and, on request, the weights of all heads
Pair = tuple[Sequence[int], Sequence[int]]  # source ids, and target ids with the end mark
T = TypeVar("T")


class TargetScorer:
    """The scorer graph of a bundle; where it has none, its decoder step by step, which cannot tell where it looked."""

    def __init__(self, bundle: Bundle, engine: OnnxEngine, *, vocabulary: int) -> None:
        self.engine = engine
        self.scorer = open_scorer(bundle, engine)
        self.batch_tokens = max(1, LOGITS_AT_ONCE // vocabulary)

    def log_probabilities(self, pairs: Sequence[Pair], start: int, workers: Workers) -> list[Scores]:
        """Of each token of each target, behind the start token."""
        read = self._step_by_step if self.scorer is None else self._in_one_pass
        return self._in_batches(pairs, partial(read, start=start), workers, self._batches(pairs))

    def with_attention(
        self,
        parts: list[Segment],
        ranked: list[list[Translation]],
        wanted: CallOptions,
        tokenizer: Tokenizer,
        workers: Workers,
    ) -> list[list[Translation]]:
        """The same translations, each with where the wanted heads looked."""
        scorer, heads, start = self.scorer, wanted.text.attention, wanted.generation.decoder_start_token_id
        if scorer is None:
            raise BundleError("this bundle cannot show attention: it has no scorer graph, as its module gives none")

        def look(pairs: list[Pair]) -> list[Weights]:  # the average at once: all heads of all pairs would be too much
            sources, targets = zip(*pairs, strict=True)
            return [average(one.attention, heads) for one in scorer.score(sources, targets, start=start)]

        pairs = [(part.ids, one.tokens) for part, several in zip(parts, ranked, strict=True) for one in several]
        batches = [few for batch in self._batches(pairs) for few in _in_few(batch, pairs, scorer.heads)]
        found = iter(self._in_batches(pairs, look, workers, batches))
        return [
            [replace(one, attention=_attention(part, one, next(found), tokenizer)) for one in several]
            for part, several in zip(parts, ranked, strict=True)
        ]

    def _in_one_pass(self, pairs: list[Pair], *, start: int) -> list[Scores]:
        assert self.scorer is not None
        sources, targets = zip(*pairs, strict=True)
        return self.scorer.log_probabilities(sources, targets, start=start)

    def _step_by_step(self, pairs: list[Pair], *, start: int) -> list[Scores]:
        sources, targets = [list(source) for source, _ in pairs], [target for _, target in pairs]
        return forced_log_probabilities(self.engine, sources, targets, start=start)

    def _batches(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """Pairs of like length together, by their places."""
        return group([max(map(len, pair)) for pair in pairs], batch_tokens=self.batch_tokens)

    @staticmethod
    def _in_batches(
        pairs: Sequence[Pair], read: Callable[[list[Pair]], list[T]], workers: Workers, batches: list[list[int]]
    ) -> list[T]:
        """What is read of each pair, in order."""
        found = workers.map(read, [[pairs[place] for place in batch] for batch in batches])
        by_place = {
            place: one
            for batch, several in zip(batches, found, strict=True)
            for place, one in zip(batch, several, strict=True)
        }
        return [by_place[place] for place in range(len(pairs))]


def _attention(part: Segment, translation: Translation, weights: Weights, tokenizer: Tokenizer) -> Attention:
    frame, tokens = tokenizer.frame, translation.tokens
    source = frame.cut(tokenizer.spell_source(part.text), len(part.ids))
    target = [tokenizer.target.piece(token) for token in tokens]
    ends = {len(tokens) - 1} if translation.ended else set()
    return attention(weights, source, target, marks=(frame.marks(part.ids), ends))


def _in_few(batch: list[int], pairs: Sequence[Pair], heads: int) -> list[list[int]]:
    """A batch as some whose attention, (pairs, heads, longest target, longest source), is not too much at once."""
    source, target = (max(len(pairs[place][side]) for place in batch) for side in (0, 1))
    most = max(1, ATTENTION_AT_ONCE // (heads * source * target))
    return [batch[start : start + most] for start in range(0, len(batch), most)]
