"""Read given targets beside their sources: how likely they are, where the decoder looks; needs onnxruntime."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from seq2edge.asked import Asked
from seq2edge.attention import Attention, Weights, attention, average
from seq2edge.batching import group
from seq2edge.bundle import Bundle
from seq2edge.errors import BundleError
from seq2edge.forcing import forced_log_probabilities
from seq2edge.onnx_engine import OnnxEngine
from seq2edge.parts import Part
from seq2edge.scorer import open_scorer
from seq2edge.search import Scores
from seq2edge.tokenizer import Tokenizer
from seq2edge.translation import Translation
from seq2edge.workers import Workers

LOGITS_AT_ONCE = 8_000_000  # numbers: a batch has the logits of all its positions in memory
ATTENTION_AT_ONCE = 8_000_000  # numbers: and, on request, the weights of all heads
Pair = tuple[Sequence[int], Sequence[int]]  # source ids, and target ids with the end mark
T = TypeVar("T")


class TargetReader:
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
        parts: list[Part],
        ranked: list[list[Translation]],
        wanted: Asked,
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


def _attention(part: Part, translation: Translation, weights: Weights, tokenizer: Tokenizer) -> Attention:
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
